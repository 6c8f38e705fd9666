"""Loads tinygrad's emulator and keeps on disk what it compiles: one handler for each form of an instruction."""
import contextlib
import hashlib
import os
import pickle
import shutil
import sys
import tempfile

os.environ.setdefault("CC", "clang-19")                               # what compiles the emulator's x86 code
CACHE = os.environ.get("EMU_CACHE_DIR", os.path.join(tempfile.gettempdir(), "rocmforge-emu"))
os.makedirs(os.path.join(CACHE, "bin"), exist_ok=True)
os.environ.setdefault("CACHEDB", os.path.join(CACHE, "tgcache.db"))    # tinygrad's own cache of what clang made
os.environ.setdefault("DEV", "CPU")
# The emulator calls plain "clang" for one helper.
with contextlib.suppress(FileExistsError):
  os.symlink(shutil.which(os.environ["CC"]) or os.environ["CC"], os.path.join(CACHE, "bin", "clang"))
os.environ["PATH"] = os.path.join(CACHE, "bin") + ":" + os.environ["PATH"]
sys.path.insert(0, os.environ["TINYGRAD_DIR"])

def _mend_wmma(emu):
  """A product whose sum starts at an inline constant: the emulator takes the constant's code for a vector register's number."""
  import inspect
  source = inspect.getsource(emu._compile_wmma)
  first, then = "ctx.rvgpr_dyn(src2_r + _c(vgpr), UOp.const(lane, dtypes.int)).bitcast(out_dt)", "  mat_a, mat_b = read_mat(src0_r), read_mat(src1_r)"
  assert first in source and then in source, "another version of the emulator: see TINYGRAD_DIR in run_hsaco.py"
  source = source.replace(first, "is_vector.where(" + first.replace(".bitcast(out_dt)", "") + ", scalar).bitcast(out_dt)")
  source = source.replace(then, "  is_vector = ctx.inst_field(type(inst).src2) >= _c(256)\n"
                                "  scalar = ctx.rsgpr_dyn(ctx.inst_field(type(inst).src2), is_vector.ne(True))\n" + then)
  exec(compile(source, emu.__file__, "exec"), emu.__dict__)

def _mend_atomics(emu):
  """Atomics that return a value say so by `sc0` on CDNA 3 and by the lowest bit of `th` on RDNA 4: the emulator knows `glc` alone."""
  import inspect
  old = emu._compile_mem_op
  source = inspect.getsource(old)
  known = "_iattr(inst, 'glc')"
  assert known in source, "another version of the emulator: see TINYGRAD_DIR in run_hsaco.py"
  source = source.replace(known, known + " or _iattr(inst, 'sc0') or _iattr(inst, 'th') & 1")
  exec(compile(source, emu.__file__, "exec"), emu.__dict__)
  for kind, handler in emu._INST_HANDLERS.items():
    if handler is old: emu._INST_HANDLERS[kind] = emu._compile_mem_op

_emu = None
def load_emulator():
  """Import the emulator and give its instruction-handler cache a disk backing (tinygrad only caches the clang step)."""
  global _emu
  if _emu: return _emu
  from test.mockgpu.amd import emu
  _mend_wmma(emu)
  _mend_atomics(emu)
  path = os.path.join(CACHE, "handlers.pkl")
  key = hashlib.sha1(open(emu.__file__,"rb").read() + open(sys.modules["test.mockgpu.amd.pcode"].__file__,"rb").read() + b"r3").hexdigest()
  store = {}
  try:
    k, store = pickle.load(open(path, "rb"))
    if k != key: store = {}
  except Exception: pass
  index = {}                                                            # (class, size, mask) -> {base: (lib, globals, sig...)}
  def add(ent): index.setdefault((ent[0], ent[1], ent[2], ent[4]), {})[ent[3]] = ent
  for e in store.values(): add(e)
  from tinygrad.device import Device, TinyELF
  class P: pass
  loaded, dirty = {}, [0]
  def materialize(ent):
    if (r := loaded.get(ent[:5])) is None:
      o = P(); o.name, o.signature, o.lib = ent[6], (), ent[5]; o.target = P(); o.target.renderer = "CLANG"
      rt = Device["CPU"].runtime(o); prg = P(); prg.arg = P(); prg.arg.globals = list(ent[7])
      r = loaded[ent[:5]] = (prg, rt)
    return r
  orig = emu._get_runner
  import functools
  @functools.cache
  def get_runner(ib, arch="rdna3"):
    inst = emu.decode_inst(ib, arch); size = inst.size(); iv = int.from_bytes(ib[:size], "little"); cn = type(inst).__module__ + "." + type(inst).__name__
    for (c, sz, mask, ar), d in index.items():
      if c == cn and sz == size and ar == arch and (ent := d.get(iv & mask)) is not None: return materialize(ent)
    n0 = len(emu._canonical_runner_cache); prg, rt = orig(ib, arch)
    if len(emu._canonical_runner_cache) > n0:
      ty, base, mask, sz, _ = emu._canonical_runner_cache[-1]
      ent = (ty.__module__ + "." + ty.__name__, sz, mask, base, arch, bytes(prg.to_elf().lib), rt.name, tuple(prg.arg.globals))
      store[ent[:5]] = ent; add(ent); dirty[0] += 1
    return prg, rt
  emu._get_runner = get_runner
  def save():
    if dirty[0]:
      try:
        k, o = pickle.load(open(path, "rb"))
        if k == key: [store.setdefault(a, b) for a, b in o.items()]      # merge with what other processes saved
      except Exception: pass
      tmp = f"{path}.{os.getpid()}"; pickle.dump((key, store), open(tmp, "wb")); os.replace(tmp, path); dirty[0] = 0
  emu.save_handlers = save
  import atexit; atexit.register(save)
  _emu = emu; return emu
