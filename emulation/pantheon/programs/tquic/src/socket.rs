// SPDX-License-Identifier: MIT
//! The UDP socket of an endpoint, and the wait for a packet or a timer.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;
use std::time::Duration;

use tquic::{PacketInfo, PacketSendHandler};

pub struct Socket {
    udp: UdpSocket,
    local: SocketAddr,
}

impl Socket {
    /// A socket on the port, or on any port for 0.
    pub fn bind(port: u16) -> io::Result<Self> {
        let udp = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
        udp.set_nonblocking(true)?;
        let local = udp.local_addr()?;
        Ok(Self { udp, local })
    }

    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Wait for a packet, at most for the time given. ppoll takes nanoseconds, so that pacing is not rounded to ms.
    pub fn wait(&self, timeout: Option<Duration>) {
        let mut descriptor = libc::pollfd { fd: self.udp.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let time = timeout.map(|time| libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: time.subsec_nanos() as libc::c_long,
        });
        let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: both pointers are to values that outlive the call. An interrupted wait is an early one.
        unsafe { libc::ppoll(&mut descriptor, 1, time, ptr::null()) };
    }

    /// The next datagram that has arrived: its size and source.
    pub fn receive(&self, buffer: &mut [u8]) -> Option<(usize, SocketAddr)> {
        self.udp.recv_from(buffer).ok()
    }
}

impl PacketSendHandler for Socket {
    /// Send until the socket's buffer is full. A packet that the kernel refuses otherwise counts as lost on the path.
    fn on_packets_send(&self, packets: &[(Vec<u8>, PacketInfo)]) -> tquic::Result<usize> {
        for (sent, (packet, path)) in packets.iter().enumerate() {
            if let Err(error) = self.udp.send_to(packet, path.dst) {
                if error.kind() == ErrorKind::WouldBlock {
                    return Ok(sent);
                }
            }
        }
        Ok(packets.len())
    }
}
