// SPDX-License-Identifier: MIT

// A video call's one direction under Google Congestion Control (GCC) of pion: RTP over UDP with transport-wide
// feedback, without ICE and DTLS.
//
//	gcc receiver PORT
//	gcc sender IP PORT
//
// The sender is a synthetic encoder of 30 frames per second. Each frame has the size that GCC's present target rate
// gives, without the variation of a real encoder. GCC's pacer sends its packets at up to 1.5 times the target. The
// receiver discards the packets and reports their arrival times every 100 ms.
//
// Source: S. Holmer et al., "A Google Congestion Control Algorithm for Real-Time Communication",
// draft-ietf-rmcat-gcc-02, as implemented by pion/interceptor.
//
// Limits: pion does not probe for bandwidth, which a browser does. A browser starts at 300 kbit/s, and its first probes
// are of 3 and 6 times this rate. Therefore the encoder starts at 1.8 Mbit/s. From there the target grows by at most
// 8 % in a second, so that it needs at least 30 s for 18 Mbit/s. Lost packets are not retransmitted. Both ends run
// until they are killed.
package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/interceptor/pkg/gcc"
	"github.com/pion/interceptor/pkg/twcc"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
)

const (
	initialBitsPerS  = 1_800_000
	minimumBitsPerS  = 30_000
	maximumBitsPerS  = 200_000_000
	framesPerS       = 30
	clockTicksPerS   = 90_000
	payloadBytes     = 1200
	payloadType      = 96
	ssrc             = 1
	largestDatagram  = 1 << 16
	feedbackInterval = 100 * time.Millisecond
)

var stream = &interceptor.StreamInfo{
	SSRC:        ssrc,
	PayloadType: payloadType,
	ClockRate:   clockTicksPerS,
	RTPHeaderExtensions: []interceptor.RTPHeaderExtension{
		{URI: "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01", ID: 1},
	},
}

// rtpOver writes RTP to the socket. A packet that the kernel refuses counts as lost on the path.
func rtpOver(socket *net.UDPConn) interceptor.RTPWriterFunc {
	return func(header *rtp.Header, payload []byte, _ interceptor.Attributes) (int, error) {
		packet, err := (&rtp.Packet{Header: *header, Payload: payload}).Marshal()
		if err != nil {
			return 0, err
		}
		_, _ = socket.Write(packet)
		return len(packet), nil
	}
}

// takeFeedback gives the receiver's reports to GCC.
func takeFeedback(socket *net.UDPConn, estimator *gcc.SendSideBWE) {
	buffer := make([]byte, largestDatagram)
	for {
		n, err := socket.Read(buffer)
		if err != nil {
			// The receiver does not listen yet, of which the kernel learns by ICMP.
			time.Sleep(time.Millisecond)
			continue
		}
		packets, err := rtcp.Unmarshal(buffer[:n])
		if err == nil {
			err = estimator.WriteRTCP(packets, nil)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "gcc: feedback:", err)
		}
	}
}

// encode writes frames of the target rate, and returns with the first error.
func encode(writer interceptor.RTPWriter, estimator *gcc.SendSideBWE) error {
	header := rtp.Header{Version: 2, PayloadType: payloadType, SSRC: ssrc}
	payload := make([]byte, payloadBytes)
	for range time.Tick(time.Second / framesPerS) {
		left := max(estimator.GetTargetBitrate()/8/framesPerS, 1)
		for left > 0 {
			size := min(left, payloadBytes)
			left -= size
			header.Marker = left == 0
			// The writer adds an extension to the header that it gets.
			packet := header.Clone()
			if _, err := writer.Write(&packet, payload[:size], nil); err != nil {
				return err
			}
			header.SequenceNumber++
		}
		header.Timestamp += clockTicksPerS / framesPerS
	}
	return nil
}

func send(address, port string) error {
	peer, err := net.ResolveUDPAddr("udp4", net.JoinHostPort(address, port))
	if err != nil {
		return err
	}
	socket, err := net.DialUDP("udp4", nil, peer)
	if err != nil {
		return err
	}
	estimator, err := gcc.NewSendSideBWE(
		gcc.SendSideBWEInitialBitrate(initialBitsPerS),
		gcc.SendSideBWEMinBitrate(minimumBitsPerS),
		gcc.SendSideBWEMaxBitrate(maximumBitsPerS),
	)
	if err != nil {
		return err
	}
	factory, err := twcc.NewHeaderExtensionInterceptor()
	if err != nil {
		return err
	}
	numbering, err := factory.NewInterceptor("")
	if err != nil {
		return err
	}
	go takeFeedback(socket, estimator)
	writer := numbering.BindLocalStream(stream, estimator.AddStream(stream, rtpOver(socket)))
	return encode(writer, estimator)
}

func receive(port string) error {
	local, err := net.ResolveUDPAddr("udp4", net.JoinHostPort("0.0.0.0", port))
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp4", local)
	if err != nil {
		return err
	}
	factory, err := twcc.NewSenderInterceptor(twcc.SendInterval(feedbackInterval))
	if err != nil {
		return err
	}
	reports, err := factory.NewInterceptor("")
	if err != nil {
		return err
	}
	// The sender's address is that of its last packet. Reports begin after the first packet.
	peers := make(chan *net.UDPAddr, 1)
	reports.BindRTCPWriter(rtcpOver(socket, peers))
	reader := reports.BindRemoteStream(stream, rtpFrom(socket, peers))
	buffer := make([]byte, largestDatagram)
	for {
		// A packet that is not RTP is ignored.
		_, _, _ = reader.Read(buffer, nil)
	}
}

// rtpFrom reads from the socket, and leaves the source of the last packet in peers.
func rtpFrom(socket *net.UDPConn, peers chan *net.UDPAddr) interceptor.RTPReaderFunc {
	return func(buffer []byte, attributes interceptor.Attributes) (int, interceptor.Attributes, error) {
		n, peer, err := socket.ReadFromUDP(buffer)
		if err == nil {
			select {
			case <-peers:
			default:
			}
			peers <- peer
		}
		return n, attributes, err
	}
}

// rtcpOver writes reports to the last source of RTP.
func rtcpOver(socket *net.UDPConn, peers chan *net.UDPAddr) interceptor.RTCPWriterFunc {
	var peer *net.UDPAddr
	return func(packets []rtcp.Packet, _ interceptor.Attributes) (int, error) {
		select {
		case peer = <-peers:
		default:
		}
		report, err := rtcp.Marshal(packets)
		if err != nil {
			return 0, err
		}
		return socket.WriteToUDP(report, peer)
	}
}

func main() {
	err := errors.New("expected receiver PORT or sender IP PORT")
	switch arguments := os.Args[1:]; {
	case len(arguments) == 2 && arguments[0] == "receiver":
		err = receive(arguments[1])
	case len(arguments) == 3 && arguments[0] == "sender":
		err = send(arguments[1], arguments[2])
	}
	fmt.Fprintln(os.Stderr, "gcc:", err)
	os.Exit(1)
}
