// Calls a gRPC method with bytes, by grpc-go. The options are told in callers.py.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io/ioutil"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Messages are bytes already.
type asIs struct{}

func (asIs) Marshal(v interface{}) ([]byte, error) { return *v.(*[]byte), nil }
func (asIs) Unmarshal(data []byte, v interface{}) error {
	*v.(*[]byte) = append([]byte{}, data...)
	return nil
}
func (asIs) Name() string { return "proto" }

var (
	options = map[string][]string{}
	bodies  [][]byte
	answers [][][]byte
	message string
	lock    sync.Mutex
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func number(key string) int {
	if len(options[key]) == 0 {
		return 0
	}
	found, err := strconv.Atoi(options[key][0])
	check(err)
	return found
}

func milliseconds(key string) time.Duration {
	return time.Duration(number(key)) * time.Millisecond
}

func keep(index int, answer []byte) {
	lock.Lock()
	defer lock.Unlock()
	for _, other := range answers[index] {
		if bytes.Equal(other, answer) {
			return
		}
	}
	answers[index] = append(answers[index], answer)
}

func ended(err error) codes.Code {
	if err == nil {
		return codes.OK
	}
	lock.Lock()
	defer lock.Unlock()
	message = status.Convert(err).Message()
	return status.Code(err)
}

func call(to *grpc.ClientConn, index int) codes.Code {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if wait := milliseconds("timeout"); wait > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, wait)
		defer stop()
	}
	if wait := milliseconds("cancel"); wait > 0 {
		time.AfterFunc(wait, cancel)
	}
	for _, pair := range options["metadata"] {
		at := strings.Index(pair, ":")
		ctx = metadata.AppendToOutgoingContext(ctx, pair[:at], pair[at+1:])
	}
	if number("stream") > 0 {
		return stream(ctx, cancel, to, index)
	}
	var answer []byte
	err := to.Invoke(ctx, options["path"][0], &bodies[index], &answer)
	if err == nil {
		keep(index, answer)
	}
	return ended(err)
}

func stream(ctx context.Context, cancel func(), to *grpc.ClientConn, index int) codes.Code {
	described := &grpc.StreamDesc{ServerStreams: true}
	running, err := to.NewStream(ctx, described, options["path"][0])
	check(err)
	check(running.SendMsg(&bodies[index]))
	check(running.CloseSend())
	for left := number("stream"); ; left-- {
		if left == 0 {
			cancel()
		}
		var answer []byte
		if err := running.RecvMsg(&answer); err != nil {
			return ended(err)
		}
		keep(index, answer)
	}
}

func connect() *grpc.ClientConn {
	defaults := []grpc.CallOption{
		grpc.ForceCodec(asIs{}),
		grpc.MaxCallRecvMsgSize(1 << 30),
		grpc.MaxCallSendMsgSize(1 << 30),
		grpc.WaitForReady(false),
	}
	if len(options["gzip"]) > 0 {
		defaults = append(defaults, grpc.UseCompressor(gzip.Name))
	}
	settings := []grpc.DialOption{grpc.WithDefaultCallOptions(defaults...)}
	if wait := milliseconds("keepalive"); wait > 0 {
		settings = append(settings, grpc.WithKeepaliveParams(
			keepalive.ClientParameters{Time: wait, Timeout: time.Minute, PermitWithoutStream: true}))
	}
	if len(options["ca"]) > 0 {
		trusted, err := credentials.NewClientTLSFromFile(options["ca"][0], "")
		check(err)
		settings = append(settings, grpc.WithTransportCredentials(trusted))
	} else {
		settings = append(settings, grpc.WithInsecure())
	}
	to, err := grpc.Dial(options["address"][0], settings...)
	check(err)
	return to
}

func main() {
	for _, argument := range os.Args[1:] {
		at := strings.Index(argument, "=")
		options[argument[:at]] = append(options[argument[:at]], argument[at+1:])
	}
	for _, file := range options["request"] {
		body, err := ioutil.ReadFile(file)
		check(err)
		bodies = append(bodies, body)
	}
	answers = make([][][]byte, len(bodies))
	count := number("calls")
	if count == 0 {
		count = 1
	}
	found := make([]codes.Code, count)
	to := connect()
	defer to.Close()
	var running sync.WaitGroup
	for i := 0; i < count; i++ {
		if wait := milliseconds("pause"); wait > 0 {
			found[i] = call(to, i%len(bodies))
			time.Sleep(wait)
			continue
		}
		running.Add(1)
		go func(i int) {
			defer running.Done()
			found[i] = call(to, i%len(bodies))
		}(i)
	}
	running.Wait()
	out := options["out"][0]
	for index, different := range answers {
		for k, answer := range different {
			name := filepath.Join(out, fmt.Sprintf("%d.%d", index, k))
			check(ioutil.WriteFile(name, answer, 0o644))
		}
	}
	check(ioutil.WriteFile(filepath.Join(out, "message"), []byte(message), 0o644))
	fmt.Print("codes")
	for _, code := range found {
		fmt.Print(" ", int(code))
	}
	fmt.Println()
}
