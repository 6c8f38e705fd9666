"""A client of what other projects' clients are generated from: `vllm_client.py ADDRESS inference|engine PROMPT`.

Generates, streams, and aborts; writes what it got as one JSON object.
"""

import json
import sys

import grpc

TOKENS = 24


def inference(channel, prompt):
    """vLLM's Inference, and its Control for the abort."""
    from vllm import control_pb2, control_pb2_grpc
    from vllm import inference_pb2 as pb
    from vllm import inference_pb2_grpc

    stub = inference_pb2_grpc.InferenceStub(channel)
    control = control_pb2_grpc.ControlStub(channel)

    def request(request_id, max_new_tokens):
        return pb.GenerateRequest(
            request_id=request_id,
            text=prompt,
            temperature=0,
            stopping=pb.StoppingCriteria(max_new_tokens=max_new_tokens, ignore_eos=True),
            response=pb.ResponseOptions(output_token_ids=True),
        )

    def ids(answers):
        return [one for answer in answers for one in answer.outputs.token_ids]

    def reasons(answers):
        ends = [answer.outputs.finish_info for answer in answers if answer.outputs.HasField("finish_info")]
        return [pb.FinishInfo.FinishReason.Name(end.finish_reason) for end in ends]

    whole = [stub.Generate(request("whole", TOKENS))]
    streamed = list(stub.GenerateStream(request("streamed", TOKENS)))
    aborted = []
    for answer in stub.GenerateStream(request("aborted", 900)):
        aborted.append(answer)
        if len(aborted) == 3:
            control.Abort(control_pb2.AbortRequest(request_ids=["aborted"]))
    return {
        "whole": ids(whole),
        "streamed": ids(streamed),
        "messages": len(streamed),
        "ends": reasons(streamed),
        "aborted": len(ids(aborted)),
        "abortedEnds": reasons(aborted),
    }


def engine(channel, prompt):
    """SMG's VllmEngine."""
    from vllm.grpc.engine import vllm_engine_pb2 as pb
    from vllm.grpc.engine import vllm_engine_pb2_grpc

    stub = vllm_engine_pb2_grpc.VllmEngineStub(channel)

    def request(request_id, max_tokens, stream):
        return pb.GenerateRequest(
            request_id=request_id,
            text=prompt,
            sampling_params=pb.SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True),
            stream=stream,
        )

    def chunks(answers):
        return [answer.chunk for answer in answers if answer.HasField("chunk")]

    def ends(answers):
        return [answer.complete for answer in answers if answer.HasField("complete")]

    def ids(answers):
        return [one for chunk in chunks(answers) for one in chunk.token_ids]

    whole = list(stub.Generate(request("whole", TOKENS, False)))
    streamed = list(stub.Generate(request("streamed", TOKENS, True)))
    aborted = []
    for answer in stub.Generate(request("aborted", 900, True)):
        aborted.append(answer)
        if len(aborted) == 3:
            stub.Abort(pb.AbortRequest(request_ids=["aborted"]))
    return {
        "whole": list(ends(whole)[0].output_ids),
        "streamed": ids(streamed),
        "messages": len(streamed),
        "ends": [end.finish_reason for end in ends(streamed)],
        "aborted": len(ids(aborted)),
        "abortedEnds": [end.finish_reason for end in ends(aborted)],
    }


def main():
    address, protocol, prompt = sys.argv[1:]
    with grpc.insecure_channel(address) as channel:
        told = {"inference": inference, "engine": engine}[protocol](channel, prompt)
    print(json.dumps(told))


main()
