"""A client of ROCmForge in Python, built on grpcio and the .proto files. In a checkout, or the installed npm package:

    pip install grpcio grpcio-tools googleapis-common-protos
    mkdir -p build/python
    python3 -m grpc_tools.protoc -I proto --python_out=build/python --grpc_python_out=build/python \
        proto/rocmforge/v1/inference.proto
    PYTHONPATH=build/python python3 examples/python/client.py 127.0.0.1:50051 [PROMPT]

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


def error_info(error):
    """The google.rpc.ErrorInfo that every error of a gateway carries: reason, domain and metadata."""
    info = error_details_pb2.ErrorInfo()
    for key, value in error.trailing_metadata():
        if key == "grpc-status-details-bin":
            for detail in status_pb2.Status.FromString(value).details:
                if detail.Unpack(info):
                    return info
    return info


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
        info = error_info(error)
        print(f"with top_p 2: {error.code().name} {info.reason}: {error.details()} ({info.metadata['field']})")


if __name__ == "__main__":
    main()
