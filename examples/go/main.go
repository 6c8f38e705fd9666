// A client of ROCmForge in Go. In a checkout, or the installed npm package:
//
//	go install google.golang.org/protobuf/cmd/protoc-gen-go@latest
//	go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@latest
//	mkdir -p build/go && cp examples/go/main.go build/go
//	protoc -I proto --go_out=build/go --go_opt=module=rocmforge \
//	    --go-grpc_out=build/go --go-grpc_opt=module=rocmforge rocmforge/v1/inference.proto
//	cd build/go && go mod init rocmforge && go mod tidy
//	go run . 127.0.0.1:50051 [PROMPT]
//
// Streams a generation, cancels one, lets one run into its deadline, and reads the details of an error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "rocmforge/v1"
)

// generate runs a generation to its end and calls onMessage for each message.
func generate(ctx context.Context, client pb.InferenceServiceClient, request *pb.GenerateStreamRequest,
	onMessage func(*pb.GenerateStreamResponse)) error {
	stream, err := client.GenerateStream(ctx, request)
	if err != nil {
		return err
	}
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		onMessage(message)
	}
}

// errorInfo is the google.rpc.ErrorInfo that every error of a gateway carries.
func errorInfo(err error) *errdetails.ErrorInfo {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	return &errdetails.ErrorInfo{}
}

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: client ADDRESS [PROMPT]")
	}
	prompt := "Once upon a time"
	if len(os.Args) > 2 {
		prompt = os.Args[2]
	}
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	client := pb.NewInferenceServiceClient(connection)
	background := context.Background()
	ignore := func(*pb.GenerateStreamResponse) {}

	text := &pb.GenerateStreamRequest_Text{Text: &pb.TextInput{Text: prompt}}
	short := &pb.GenerateStreamRequest{
		Input:    text,
		Sampling: &pb.SamplingParameters{Temperature: proto.Float32(0)},
		Stop:     &pb.StopConditions{MaxTokens: proto.Uint32(60)},
	}
	err = generate(background, client, short, func(message *pb.GenerateStreamResponse) {
		if chunk := message.GetChunk(); chunk != nil {
			fmt.Print(chunk.Text)
		}
		if end := message.GetComplete(); end != nil {
			fmt.Printf("\n%v: %d tokens\n", end.FinishReason, end.Usage.CompletionTokens)
		}
	})
	if err != nil {
		log.Fatal(err)
	}

	long := &pb.GenerateStreamRequest{Input: text, Stop: &pb.StopConditions{MaxTokens: proto.Uint32(400), IgnoreEos: true}}
	cancelled, cancel := context.WithCancel(background)
	chunks := 0
	err = generate(cancelled, client, long, func(*pb.GenerateStreamResponse) {
		if chunks++; chunks == 3 {
			cancel()
		}
	})
	fmt.Printf("cancelled after 3 chunks: %v\n", status.Code(err))

	late, stop := context.WithTimeout(background, 20*time.Millisecond)
	defer stop()
	fmt.Printf("with a deadline of 20 ms: %v\n", status.Code(generate(late, client, long, ignore)))

	wrong := &pb.GenerateStreamRequest{Input: text, Sampling: &pb.SamplingParameters{TopP: proto.Float32(2)}}
	err = generate(background, client, wrong, ignore)
	info := errorInfo(err)
	fmt.Printf("with top_p 2: %v %s: %s (%s)\n", status.Code(err), info.Reason, status.Convert(err).Message(),
		info.Metadata["field"])
}
