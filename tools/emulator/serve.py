#!/usr/bin/env python3
"""Serves kernel launches on the emulator to another process.

    serve.py --describe FOLDER      prints what the code objects of a folder hold, as JSON, and ends
    serve.py [--memory PATH:ADDRESS:BYTES...]
                                    serves requests from standard input until it ends. With --memory the file is mapped
                                    at that address, and arguments may point into it

A request is a line of JSON, then the bytes of its buffers one after the other:
    {"file", "kernel", "grid": [x, y, z], "block", "order", "budget", "arguments": [{"bytes": N} | {"hex": "..."}],
     "blocks": [[x, y, z], ...] those of the grid that run, absent: all, "counts": whether the answer has a census of them}
The answer is a line of JSON, then the bytes that the buffers hold after the launch:
    {"instructions", "census"} | {"error", "too_long"}  no bytes follow an error

With ROCMFORGE_EMULATOR_TOTALS a file of that name tells, before each answer, what was run so far:
    {"instructions", "kernels": {NAME: {"sha256" of its code object, "launches", "instructions"}}}
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
        "vgprs": meta[".vgpr_count"],
        "lds": meta[".group_segment_fixed_size"],
        "arguments": [{"bytes": a[".size"], "buffer": a[".value_kind"] == "global_buffer"} for a in visible],
      }
  return kernels


def map_memory(place):
  """Maps another process's device memory where that process has it. @returns its range as run_hsaco takes it"""
  import ctypes
  path, address, size = place.rsplit(":", 2)
  address, size = int(address), int(size)
  libc = ctypes.CDLL(None, use_errno=True)
  libc.mmap.restype = ctypes.c_void_p
  libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
  file = os.open(path, os.O_RDWR)
  MAP_SHARED, MAP_FIXED_NOREPLACE, READ_WRITE = 1, 0x100000, 3
  mapped = libc.mmap(address, size, READ_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0)
  if mapped != address:
    raise OSError(f"cannot map {path} at {address:#x}")
  return (address, address + size, "device memory")


def launch(request, objects, source, memory):
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
  block = request["block"]
  try:
    buffers = runner.run_hsaco(objects[path], request["kernel"], request["grid"], block if isinstance(block, list) else [block, 1, 1], arguments,
                               order=request["order"], max_inst=request["budget"], memory=memory,
                               blocks=request.get("blocks"), counts=request.get("counts", False), latency=request.get("latency"), dyn_lds=request.get("dynamicLds", 0))
  except Exception as error:
    too_long = isinstance(error, runner.BudgetSpent)
    return {"error": f"{type(error).__name__}: {error}", "too_long": too_long}, []
  return {"instructions": runner.last_stats["inst"], "census": runner.last_stats["census"]}, buffers


class Totals:
  """What was run so far, in a file for another process to read."""

  def __init__(self, path):
    self.path, self.kernels, self.hashes = path, {}, {}

  def add(self, file, kernel, instructions):
    if file not in self.hashes:
      with open(file, "rb") as source:
        self.hashes[file] = hashlib.sha256(source.read()).hexdigest()
    entry = self.kernels.setdefault(kernel, {"sha256": self.hashes[file], "launches": 0, "instructions": 0})
    entry["launches"] += 1
    entry["instructions"] += instructions
    total = sum(entry["instructions"] for entry in self.kernels.values())
    with open(self.path + ".new", "w") as target:
      json.dump({"instructions": total, "kernels": self.kernels}, target)
    os.replace(self.path + ".new", self.path)


def serve(memory):
  source = sys.stdin.buffer
  totals_file = os.environ.get("ROCMFORGE_EMULATOR_TOTALS")
  totals = Totals(totals_file) if totals_file else None
  # What the emulator prints must not get between the answers.
  answers = os.fdopen(os.dup(1), "wb")
  os.dup2(2, 1)
  objects = {}
  for served, line in enumerate(iter(source.readline, b""), 1):
    request = json.loads(line)
    answer, buffers = launch(request, objects, source, memory)
    if totals and "instructions" in answer:
      totals.add(request["file"], request["kernel"], answer["instructions"])
    answers.write(json.dumps(answer).encode() + b"\n" + b"".join(buffer.tobytes() for buffer in buffers))
    answers.flush()
    if served % SAVE_EVERY == 0:
      from handlers import load_emulator
      load_emulator().save_handlers()


if __name__ == "__main__":
  if sys.argv[1:2] == ["--describe"]:
    print(json.dumps(describe(sys.argv[2])))
  else:
    serve([map_memory(place) for place in sys.argv[2:]] if sys.argv[1:2] == ["--memory"] else [])
