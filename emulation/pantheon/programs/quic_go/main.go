// SPDX-License-Identifier: MIT

// Bulk data over one stream of one QUIC connection of quic-go.
//
//	quic_go receiver PORT
//	quic_go sender IP PORT
//
// The receiver is the QUIC server. It reads and discards. The sender is the client, and its congestion control is the
// library's: Reno with pacing. Flow control allows 64 MiB, so that it does not limit the rate. A packet has at most
// 1428 bytes of IP, its size is not probed, and segmentation is not left to the kernel. The certificate is made for
// each run, and it is not verified.
//
// Limits: both ends run until they are killed, and the sender also ends, with status 1, when its connection closes.
package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	application     = "ccatune"
	windowBytes     = 64 << 20
	udpPayloadBytes = 1400
	// Longer than any run, so that an outage of the link does not end the connection.
	timeout = time.Hour
)

var settings = &quic.Config{
	HandshakeIdleTimeout:           timeout,
	MaxIdleTimeout:                 timeout,
	InitialStreamReceiveWindow:     windowBytes,
	MaxStreamReceiveWindow:         windowBytes,
	InitialConnectionReceiveWindow: windowBytes,
	MaxConnectionReceiveWindow:     windowBytes,
	InitialPacketSize:              udpPayloadBytes,
	DisablePathMTUDiscovery:        true,
}

func certificate() (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	encoded, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	return tls.Certificate{Certificate: [][]byte{encoded}, PrivateKey: private}, err
}

func discard(ctx context.Context, connection *quic.Conn) {
	for {
		stream, err := connection.AcceptUniStream(ctx)
		if err != nil {
			return
		}
		// The error is the end of the connection, on which AcceptUniStream reports it too.
		_, _ = io.Copy(io.Discard, stream)
	}
}

func receive(ctx context.Context, port string) error {
	made, err := certificate()
	if err != nil {
		return err
	}
	listener, err := quic.ListenAddr(
		net.JoinHostPort("0.0.0.0", port),
		&tls.Config{Certificates: []tls.Certificate{made}, NextProtos: []string{application}, MinVersion: tls.VersionTLS13},
		settings,
	)
	if err != nil {
		return err
	}
	for {
		connection, err := listener.Accept(ctx)
		if err != nil {
			return err
		}
		go discard(ctx, connection)
	}
}

func send(ctx context.Context, address, port string) error {
	trust := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{application}, MinVersion: tls.VersionTLS13}
	connection, err := quic.DialAddr(ctx, net.JoinHostPort(address, port), trust, settings)
	if err != nil {
		return err
	}
	stream, err := connection.OpenUniStreamSync(ctx)
	if err != nil {
		return err
	}
	zeros := make([]byte, 1<<16)
	for {
		if _, err := stream.Write(zeros); err != nil {
			return err
		}
	}
}

func run(arguments []string) error {
	ctx := context.Background()
	switch {
	case len(arguments) == 2 && arguments[0] == "receiver":
		return receive(ctx, arguments[1])
	case len(arguments) == 3 && arguments[0] == "sender":
		return send(ctx, arguments[1], arguments[2])
	default:
		return errors.New("expected receiver PORT or sender IP PORT")
	}
}

func main() {
	for _, name := range []string{"QUIC_GO_DISABLE_GSO", "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"} {
		if err := os.Setenv(name, "true"); err != nil {
			panic(err)
		}
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "quic_go:", err)
		os.Exit(1)
	}
}
