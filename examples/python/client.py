"""A client of ROCmForge in Python, built on grpcio and the .proto files.

    apt-get install python3-grpcio protobuf-compiler protobuf-compiler-grpc
    mkdir -p build/python
    protoc -I proto --python_out=build/python --grpc_python_out=build/python \
        --plugin=protoc-gen-grpc_python=/usr/bin/grpc_python_plugin \
        proto/rocmforge/v1/inference.proto proto/google/rpc/status.proto proto/google/rpc/error_details.proto
    PYTHONPATH=build/python /usr/bin/python3 examples/python/client.py 127.0.0.1:50051

Streams a generation, cancels one, lets one run into its deadline, and reads the details of an error.
"""

import sys

import grpc
from google.rpc import error_details_pb2, status_pb2

from rocmforge.v1 import inference_pb2 as pb
from rocmforge.v1 import inference_pb2_grpc as pb_grpc


def request(prompt, max_tokens=60, ignore_eos=False, **sampling):
    """A text request; `sampling` are fields of SamplingParameters."""
    return pb.GenerateStreamRequest(
        text=pb.TextInput(text=prompt),
        sampling=pb.SamplingParameters(**sampling),
        stop=pb.StopConditions(max_tokens=max_tokens, ignore_eos=ignore_eos),
    )


def reason_of(error):
    """The reason in the google.rpc.ErrorInfo that every error carries."""
    for key, value in error.trailing_metadata():
        if key == "grpc-status-details-bin":
            for detail in status_pb2.Status.FromString(value).details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info):
                    return info.reason
    return None


def main():
    address = sys.argv[1]
    prompt = sys.argv[2] if len(sys.argv) > 2 else "Once upon a time"
    client = pb_grpc.InferenceServiceStub(grpc.insecure_channel(address))

    for message in client.GenerateStream(request(prompt, temperature=0)):
        if message.HasField("chunk"):
            print(message.chunk.text, end="", flush=True)
        else:
            end = message.complete
            print(f"\n{pb.FinishReason.Name(end.finish_reason)}: {end.usage.completion_tokens} tokens")

    call = client.GenerateStream(request(prompt, max_tokens=400, ignore_eos=True))
    for chunks, _ in enumerate(call, 1):
        if chunks == 3:
            call.cancel()
            break
    print(f"cancelled after {chunks} chunks: {call.code().name}")

    try:
        for _ in client.GenerateStream(request(prompt, max_tokens=400, ignore_eos=True), timeout=0.02):
            pass
    except grpc.RpcError as error:
        print(f"with a deadline of 20 ms: {error.code().name}")

    try:
        list(client.GenerateStream(request(prompt, top_p=2)))
    except grpc.RpcError as error:
        print(f"with top_p 2: {error.code().name} {reason_of(error)}: {error.details()}")


if __name__ == "__main__":
    main()
