// SPDX-License-Identifier: MIT
//! Bulk data over one stream of one QUIC connection of tquic.
//!
//!     ccatune-tquic receiver PORT
//!     ccatune-tquic sender ALGORITHM IP PORT
//!
//! The receiver is the QUIC server. It reads and discards. The sender is the client, and its congestion control is
//! ALGORITHM: copa, copa-DELTA, bbr, bbr3 or cubic. The parameters of the congestion control and its pacing are the
//! library's, except for Copa's delta if it is given. Flow control allows 64 MiB, so that it does not limit the rate.
//! A packet has 1228 bytes of IP until a probe of 1428 bytes has arrived, and at most 1428 bytes from then on. The
//! certificate is made for each run, and it is not verified.
//!
//! Limits: both ends run until they are killed, and the sender also ends, with status 1, when its connection closes.

mod certificate;
mod socket;

use std::cell::RefCell;
use std::env;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use tquic::{Config, CongestionControlAlgorithm, Connection, Endpoint, PacketInfo, TlsConfig, TransportHandler};

use socket::Socket;

type Outcome<T> = Result<T, Box<dyn Error>>;

const APPLICATION: &[u8] = b"ccatune";
const WINDOW_BYTES: u64 = 64 << 20;
const UDP_PAYLOAD_BYTES: usize = 1400;
// The most that is received before the connection is processed, so that ACKs are not delayed.
const DATAGRAMS_AT_ONCE: usize = 32;
const HANDSHAKE_TIMEOUT_MS: u64 = 600_000;
const ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// The reason for which the connection closed, shared with the loop.
type Closed = Rc<RefCell<Option<String>>>;

/// Both ends: the sender fills a stream, and the receiver empties it.
struct Bulk {
    is_sender: bool,
    buffer: Vec<u8>,
    closed: Closed,
}

impl Bulk {
    /// Write until the flow-control window is full.
    fn fill(&self, connection: &mut Connection, stream: u64) {
        while matches!(connection.stream_write(stream, Bytes::from_static(&ZEROS), false), Ok(n) if n > 0) {}
        // An error here is the stream's end, which also ends the connection.
        let _ = connection.stream_want_write(stream, true);
    }
}

impl TransportHandler for Bulk {
    fn on_conn_created(&mut self, _connection: &mut Connection) {}

    fn on_conn_established(&mut self, connection: &mut Connection) {
        if self.is_sender {
            match connection.stream_uni_new(0, false) {
                Ok(stream) => self.fill(connection, stream),
                Err(error) => *self.closed.borrow_mut() = Some(format!("cannot open a stream: {error}")),
            }
        }
    }

    fn on_conn_closed(&mut self, connection: &mut Connection) {
        if self.is_sender {
            let error = connection.peer_error().or(connection.local_error());
            *self.closed.borrow_mut() = Some(format!("the connection closed: {error:?}"));
        }
    }

    fn on_stream_created(&mut self, _connection: &mut Connection, _stream: u64) {}

    fn on_stream_readable(&mut self, connection: &mut Connection, stream: u64) {
        while matches!(connection.stream_read(stream, &mut self.buffer), Ok((n, false)) if n > 0) {}
    }

    fn on_stream_writable(&mut self, connection: &mut Connection, stream: u64) {
        if self.is_sender {
            self.fill(connection, stream);
        }
    }

    fn on_stream_closed(&mut self, _connection: &mut Connection, _stream: u64) {}

    fn on_new_token(&mut self, _connection: &mut Connection, _token: Vec<u8>) {}
}

/// The settings of both ends.
fn settings(tls: TlsConfig) -> Outcome<Config> {
    let mut config = Config::new()?;
    config.set_max_handshake_timeout(HANDSHAKE_TIMEOUT_MS);
    config.set_max_connection_window(WINDOW_BYTES);
    config.set_max_stream_window(WINDOW_BYTES);
    config.set_initial_max_data(WINDOW_BYTES);
    config.set_initial_max_stream_data_uni(WINDOW_BYTES);
    config.set_send_udp_payload_size(UDP_PAYLOAD_BYTES);
    config.set_tls_config(tls);
    Ok(config)
}

/// Choose the congestion control by its name.
fn choose(config: &mut Config, algorithm: &str) -> Outcome<()> {
    let (name, delta) = algorithm.split_once('-').unwrap_or((algorithm, ""));
    config.set_congestion_control_algorithm(match name {
        "copa" => CongestionControlAlgorithm::Copa,
        "bbr" => CongestionControlAlgorithm::Bbr,
        "bbr3" => CongestionControlAlgorithm::Bbr3,
        "cubic" => CongestionControlAlgorithm::Cubic,
        _ => return Err(format!("expected copa, copa-DELTA, bbr, bbr3 or cubic, got {algorithm}").into()),
    });
    if !delta.is_empty() {
        let value = delta.parse::<f64>().ok().filter(|value| name == "copa" && *value > 0.0);
        let value = value.ok_or(format!("expected a positive delta of copa, got {algorithm}"))?;
        config.set_copa_slow_start_delta(value);
        config.set_copa_steady_delta(value);
    }
    Ok(())
}

/// Process packets and timers until the connection of the sender closes.
fn serve(mut endpoint: Endpoint, socket: &Socket, closed: &Closed) -> Outcome<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        endpoint.process_connections()?;
        if let Some(reason) = closed.borrow_mut().take() {
            return Err(reason.into());
        }
        socket.wait(endpoint.timeout());
        for _ in 0..DATAGRAMS_AT_ONCE {
            let Some((bytes, src)) = socket.receive(&mut buffer) else { break };
            let packet = PacketInfo { src, dst: socket.local(), time: Instant::now() };
            // A packet that is not of this connection is ignored, as QUIC requires.
            let _ = endpoint.recv(&mut buffer[..bytes], &packet);
        }
        endpoint.on_timeout(Instant::now());
    }
}

/// One end, until it is killed.
fn run(config: Config, port: u16, peer: Option<SocketAddr>) -> Outcome<()> {
    let socket = Rc::new(Socket::bind(port)?);
    let closed = Closed::default();
    let bulk = Bulk { is_sender: peer.is_some(), buffer: vec![0; 1 << 16], closed: closed.clone() };
    let mut endpoint = Endpoint::new(Box::new(config), peer.is_none(), Box::new(bulk), socket.clone());
    if let Some(remote) = peer {
        endpoint.connect(socket.local(), remote, Some("ccatune"), None, None, None)?;
    }
    serve(endpoint, &socket, &closed)
}

fn start(arguments: &[&str]) -> Outcome<()> {
    match arguments {
        ["receiver", port] => run(settings(certificate::server(APPLICATION)?)?, port.parse()?, None),
        ["sender", algorithm, address, port] => {
            let mut tls = TlsConfig::new_client_config(vec![APPLICATION.to_vec()], false)?;
            tls.set_verify(false);
            let mut config = settings(tls)?;
            choose(&mut config, algorithm)?;
            run(config, 0, Some((address.parse::<Ipv4Addr>()?, port.parse()?).into()))
        }
        _ => Err("expected receiver PORT or sender ALGORITHM IP PORT".into()),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match start(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ccatune-tquic: {error}");
            ExitCode::FAILURE
        }
    }
}
