#!/usr/bin/env python3
"""Serves kernel launches on the emulator to another process.

    serve.py --describe FOLDER      prints what the code objects of a folder hold, as JSON, and ends
    serve.py                        serves requests from standard input until it ends

A request is a line of JSON, then the bytes of its buffers one after the other:
    {"file", "kernel", "grid": [x, y, z], "block", "order", "budget", "arguments": [{"bytes": N} | {"hex": "..."}]}
The answer is a line of JSON, then the bytes that the buffers hold after the launch:
    {"instructions"} | {"error", "too_long"}            no bytes follow an error
"""
import glob
import hashlib
import json
import os
import sys

from code_object import Hsaco

SAVE_EVERY = 20  # requests between two saves of the compiled instruction handlers


def describe(folder):
  """{kernel: {file, sha256, wave, arguments: [{bytes, buffer}]}} of each code object in a folder."""
  kernels = {}
  for path in sorted(glob.glob(os.path.join(folder, "*.hsaco"))):
    with open(path, "rb") as file:
      data = file.read()
    for name, meta in Hsaco(data).kernels.items():
      visible = [a for a in meta.get(".args", []) if not a[".value_kind"].startswith("hidden_")]
      kernels[name] = {
        "file": os.path.basename(path),
        "sha256": hashlib.sha256(data).hexdigest(),
        "wave": meta[".wavefront_size"],
        "arguments": [{"bytes": a[".size"], "buffer": a[".value_kind"] == "global_buffer"} for a in visible],
      }
  return kernels


def launch(request, objects, source):
  """Runs one request. @returns its answer and the buffers' contents"""
  import numpy as np
  import run_hsaco as runner
  arguments = []
  for argument in request["arguments"]:
    if "hex" in argument:
      arguments.append(bytes.fromhex(argument["hex"]))
    else:
      arguments.append(np.frombuffer(source.read(argument["bytes"]), np.uint8))
  path = request["file"]
  if path not in objects:
    objects[path] = Hsaco(path)
  try:
    buffers = runner.run_hsaco(objects[path], request["kernel"], request["grid"], [request["block"], 1, 1], arguments,
                               order=request["order"], max_inst=request["budget"])
  except Exception as error:
    too_long = isinstance(error, runner.BudgetSpent)
    return {"error": f"{type(error).__name__}: {error}", "too_long": too_long}, []
  return {"instructions": runner.last_stats["inst"]}, buffers


def serve():
  source = sys.stdin.buffer
  # What the emulator prints must not get between the answers.
  answers = os.fdopen(os.dup(1), "wb")
  os.dup2(2, 1)
  objects = {}
  for served, line in enumerate(iter(source.readline, b""), 1):
    answer, buffers = launch(json.loads(line), objects, source)
    answers.write(json.dumps(answer).encode() + b"\n" + b"".join(buffer.tobytes() for buffer in buffers))
    answers.flush()
    if served % SAVE_EVERY == 0:
      from handlers import load_emulator
      load_emulator().save_handlers()


if __name__ == "__main__":
  if sys.argv[1:2] == ["--describe"]:
    print(json.dumps(describe(sys.argv[2])))
  else:
    serve()
