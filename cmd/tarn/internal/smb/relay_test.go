package smb

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
)

// Commands of MS-SMB2 2.2.1 that tests count.
const (
	commandCreate = 5
	commandFlush  = 7
	commandRead   = 8
	commandWrite  = 9
	commandIoctl  = 11
)

// relay forwards between the command and a server, and counts the command's requests.
type relay struct {
	addr  string
	alter []func(message []byte)

	mu       sync.Mutex
	commands map[uint16]int
	frames   int
}

// startRelay relays to a server whose messages are not encrypted. Each of alter may change a request of the command; those of
// sessions that sign must stay as they are.
func startRelay(t *testing.T, addr string, alter ...func(message []byte)) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{addr: l.Addr().String(), alter: alter, commands: map[uint16]int{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { r.carry(client, addr) })
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return r
}

func (r *relay) carry(client net.Conn, addr string) {
	defer client.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(client, server)
		client.Close()
	}()
	for {
		frame := make([]byte, 4)
		if _, err := io.ReadFull(client, frame); err != nil {
			break
		}
		frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame))...)
		if _, err := io.ReadFull(client, frame[4:]); err != nil {
			break
		}
		r.count(frame[4:])
		if _, err := server.Write(frame); err != nil {
			break
		}
	}
	server.Close()
	<-done
}

// count counts the messages of one frame (MS-SMB2 2.2.1.2), and alters them.
func (r *relay) count(frame []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frames++
	for len(frame) >= 64 {
		r.commands[binary.LittleEndian.Uint16(frame[12:])]++
		for _, alter := range r.alter {
			alter(frame)
		}
		next := int(binary.LittleEndian.Uint32(frame[20:]))
		if next == 0 || next > len(frame) {
			return
		}
		frame = frame[next:]
	}
}

// take returns what was counted since the last take.
func (r *relay) take() (frames int, commands map[uint16]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	frames, commands = r.frames, r.commands
	r.frames, r.commands = 0, map[uint16]int{}
	return frames, commands
}
