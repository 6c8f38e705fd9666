#!/usr/bin/env python3
"""Run one kernel of an AMD HSACO (code object v4/v5, HIP/HSA ABI) on tinygrad's AMD ISA emulator. No GPU needed.

  from run_hsaco import Hsaco, run_hsaco
  outs = run_hsaco("k.hsaco", "rmsnorm", grid=(8,1,1), block=(256,1,1), args=[x, w, y, 512, 1e-5], dyn_lds=0)

args: numpy arrays (buffers; returned list holds their final contents), python ints/floats or ctypes/np scalars (by value;
int/float width comes from the metadata's .size; python float needs size 4/8/2), or raw bytes.
Argument offsets/sizes/kinds, hidden (implicit) args, LDS/scratch sizes and user SGPRs all come from the code object.
env: TINYGRAD_DIR (a tinygrad checkout, commit a9069c177a9d or near; its test/mockgpu/amd/emu.py is the emulator),
     CC (clang for the emulator's per-instruction C kernels, default clang-19), EMU_CACHE_DIR (default in the temp folder).
Known limits of that emulator that this runner does not mend: MFMA 32x32 output layout and MFMA i8 but 16x16x32 are wrong; WMMA iu8
ignores the unsigned flag; gfx90a private memory collides between lanes; fp32 division with denormals gives 0 or inf; only wave32 on RDNA and wave64 on CDNA; no timing, occupancy, waitcnt or hazards. No result has been compared
with hardware: transcendentals differ from a GPU by some ULP.
What it mends (instructions.py): DPP16, DS_SWIZZLE, PERMLANE16, S_GETPC/SETPC, moves relative to M0 (V_MOVREL*, S_SET_GPR_IDX_ON), negated
and absolute operands of SDWA, DS and FLAT on accumulation registers, MFMA i8 16x16x32, V_MUL_HI_I32_I24 of negative
products, 16-bit operands in v128 and up on CDNA, which the emulator takes for the high halves of v0 and up, and (handlers.py) WMMA on inline
constants, and atomics that return a value on gfx942 and gfx12, which never returned it.
"""
import contextlib
import ctypes
import itertools
import os
import random
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np

from census import Census
from code_object import Hsaco
from handlers import load_emulator
from instructions import _getx, _memcheck, _skipper, _special, _views

class BudgetSpent(RuntimeError):
  """The launch took more wave-instructions than the caller allowed."""

_PK = {1:("b","B"),2:("h","H"),4:("i","I"),8:("q","Q")}
def _scalar(v, size):
  if isinstance(v, (bytes, bytearray)): assert len(v) == size, (len(v), size); return bytes(v)
  if isinstance(v, (np.generic,)): b = v.tobytes(); assert len(b) == size, (v.dtype, size); return b
  if isinstance(v, ctypes._SimpleCData): b = bytes(v); assert len(b) == size; return b
  if isinstance(v, bool): return struct.pack("<"+_PK[size][1], int(v))
  if isinstance(v, float): return struct.pack("<"+{2:"e",4:"f",8:"d"}[size], v)
  return struct.pack("<"+_PK[size][0 if v < 0 else 1], v)

class _Unmap:
  """Gives a mapping back, however the launch ends."""
  def __init__(self, libc, address, size): self.libc, self.address, self.size = libc, address, size
  def close(self): self.libc.munmap(self.address, self.size)

def build_kernarg(kmeta, grid, block, args, bufs, dyn_lds, kernarg_size):
  ka = bytearray(max(kernarg_size, 8)); it = iter(args); outs = []
  ndim = 3 if grid[2]*block[2] > 1 else 2 if grid[1]*block[1] > 1 else 1
  hid = {"hidden_block_count_x":grid[0],"hidden_block_count_y":grid[1],"hidden_block_count_z":grid[2],
         "hidden_group_size_x":block[0],"hidden_group_size_y":block[1],"hidden_group_size_z":block[2],
         "hidden_grid_dims":ndim,"hidden_dynamic_lds_size":dyn_lds}    # remainder/global_offset/none/... stay 0
  for a in kmeta.get(".args", []):
    o, n, k = a[".offset"], a[".size"], a[".value_kind"]
    if k.startswith("hidden_"): ka[o:o+n] = (hid.get(k, 0)).to_bytes(n, "little"); continue
    v = next(it)
    if k in ("global_buffer", "dynamic_shared_pointer") and isinstance(v, np.ndarray):
      b = (ctypes.c_uint8 * (v.nbytes + 512))(); p = (ctypes.addressof(b) + 255) & ~255   # 256B aligned copy + guard
      ctypes.memset(ctypes.addressof(b), 0xA5, len(b)); c = np.ascontiguousarray(v); ctypes.memmove(p, c.ctypes.data, c.nbytes)
      bufs.append((b, p, c)); outs.append((p, c.dtype, c.shape)); ka[o:o+n] = struct.pack("<Q", p)
    elif v is None: ka[o:o+n] = bytes(n)
    else: ka[o:o+n] = _scalar(v, n)
  assert next(it, None) is None, "too many args"
  return ka, outs

last_stats = {}
def run_hsaco(path, name, grid, block, args, dyn_lds=0, ftz=None, trace=False, max_inst=50_000_000, poison_lds=True, order="fwd", check_mem=True, memory=(), blocks=None, counts=False, latency=None):
  """Returns the list of array args (in order) after the run. order: "fwd"/"rev"/int seed = order in which workgroups, and waves between
  barriers, are executed (waves run one after the other, so a missing __syncthreads shows up only when the order changes).
  memory: (start, end, name) ranges of this process that arguments given as raw bytes may point into. blocks: the (x, y, z) of those
  that run, of the whole grid. counts: last_stats["census"] is a Census' summary, with the nanoseconds of `latency`."""
  co = path if isinstance(path, Hsaco) else Hsaco(path)
  grid, block = (tuple(grid)+(1,1))[:3], (tuple(block)+(1,1))[:3]
  km, kd = co.kernels[name], co.kd(name)
  assert co.arch, f"unsupported target {co.target}"
  wave = km[".wavefront_size"]
  assert wave == (64 if co.arch == "cdna" else 32), f"emulator only does wave{64 if co.arch=='cdna' else 32} on {co.target}"
  t0 = time.time()
  emu = load_emulator()
  bufs = []; ka, outs = build_kernarg(km, grid, block, args, bufs, dyn_lds, kd["kernarg"] or km[".kernarg_segment_size"])
  kbuf = (ctypes.c_uint8 * (len(ka)+64)).from_buffer_copy(bytes(ka)+bytes(64)); kptr = ctypes.addressof(kbuf)
  lds = kd["lds"] + dyn_lds; nthr = block[0]*block[1]*block[2]; scratch = kd["priv"]
  assert lds <= 65536 and nthr <= 1024, (lds, nthr)
  # AQL dispatch packet (for kernels that use dispatch_ptr: code object v4 blockDim, __builtin_amdgcn_grid_size_*)
  pkt = (ctypes.c_uint8*64).from_buffer_copy(struct.pack("<HHHHHHIIIIIQQQQ", 2|(3<<9)|(3<<11), 3, *block, 0, *[g*b for g,b in zip(grid,block)],
        scratch, lds, kd["entry"], kptr, 0, 0))
  p, ud, nscr = kd["props"], [], (nthr + wave - 1)//wave*wave
  sbuf = (ctypes.c_uint8*(scratch*nscr + 64))() if scratch else None; sptr = ctypes.addressof(sbuf) if sbuf else 0
  q = lambda v: ud.extend([v & 0xffffffff, v >> 32])
  if p & 1: q(sptr & 0xffffffffffff); ud.extend([0xffffffff, 0x00e27fac & 0xffffc000])  # private segment buffer V# (no swizzle in emu)
  if p & 2: q(ctypes.addressof(pkt))
  if p & 4: q(0)
  if p & 8: q(kptr)
  if p & 16: q(0)
  if p & 32: q(sptr)
  if p & 64: ud.append(scratch)
  nuser = (kd["rsrc2"] >> 1) & 31
  pl, po = kd["preload"] & 127, kd["preload"] >> 7                      # kernarg preload (gfx90a/gfx942)
  for i in range(pl): ud.append(struct.unpack_from("<I", bytes(kbuf), (po+i)*4)[0])
  entry = kd["entry"] + (256 if pl else 0)
  ud += [0]*(nuser-len(ud))
  # LDS: reserve the whole 32-bit address space (lazily committed). The emulator's DS handlers also touch the address of
  # INACTIVE lanes (a stale VGPR = any 32-bit value), which segfaults with a tight buffer.
  libc = ctypes.CDLL(None, use_errno=True); libc.mmap.restype = ctypes.c_void_p
  libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
  libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]; libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
  LDSB = (1<<32) + (1<<20); ldsb = libc.mmap(None, LDSB, 3, 0x22|0x4000, -1, 0)   # PRIVATE|ANON|NORESERVE
  assert ldsb not in (None, 2**64-1)
  ranges = [(p_, p_+c.nbytes, f"array arg #{i}") for i, (b, p_, c) in enumerate(bufs)] + [(kptr, kptr+len(kbuf), "kernarg"), (co.base, co.base+len(co._map), "code object")] + list(memory)
  ranges += [(ctypes.addressof(pkt), ctypes.addressof(pkt)+64, "dispatch packet")] + ([(sptr, sptr+len(sbuf), "scratch")] if sbuf else [])
  census = Census(kd["entry"], latency) if counts else None
  prog, stats = {}, dict(inst=0, waves=0, handlers0=len(emu._canonical_runner_cache)); tc = 0.0
  def fetch(pc):
    e = decode(pc)
    if census is None: return e
    try: inst = emu.decode_inst(bytes((ctypes.c_char*16).from_address(pc).raw), co.arch)
    except Exception: return e                                          # one that decode() skips
    watch = census.watch(pc, inst, emu._op_name(inst).upper(), co.arch, wave, _views, _getx)
    if watch is None: return e
    function, used = e[0], e[1]
    def watched(*b):
      watch(b[0], b[1]); function(*[b[i] for i in used])
    e = prog[pc] = (watched, [0, 1, 2, 3, 4, 5], e[2], e[3]); return e
  def decode(pc):
    nonlocal tc
    w0 = ctypes.c_uint32.from_address(pc).value
    # cache-control instructions the emulator cannot decode on RDNA3 (buffer_gl0_inv/gl1_inv come from acquire fences unless -mcumode)
    if (co.arch == "rdna3" and w0 in (0xe0ac0000, 0xe0b00000)) or \
       (co.arch == "rdna4" and (w0 & 0xffffc000) in (0xee0ac000, 0xee0b0000, 0xee0bc000)) or \
       (co.arch == "cdna" and (w0 & 0xfdff3fff) in (0xe0a00000, 0xe0a40000, 0xe0a80000, 0xe0fc0000)):  # buffer_wbl2, buffer_inv(l2), wbinvl1
      skip = _skipper(12 if co.arch == 'rdna4' else 8)
      e = prog[pc] = (skip, [0], False, f"cache-op {w0:#x}"); return e
    if (sp := _special(pc, co.arch, wave, emu)) is not None: e = prog[pc] = (sp[0], sp[1], False, f"special {w0:#x}"); return e
    t = time.time(); (prg, rt), inst = emu._decode_at(pc, co.arch); tc += time.time()-t
    bar = isinstance(inst, (emu.ir3.SOPP, emu.ir4.SOPP, emu.irc.SOPP)) and inst.op in emu._BARRIER_OPS or \
          isinstance(inst, emu.ir4.SOP1) and inst.op in emu._BARRIER_SOP1_OPS
    fx = rt.fxn; gl = list(prg.arg.globals)
    if check_mem and (ck := _memcheck(pc, co.arch, wave, inst, emu, ranges, lambda p: f"{name}+{p-kd['entry']:#x}", census and census.record)):
      def fx(*b, _f=rt.fxn, _g=gl): ck(b[0], b[1]); _f(*[b[i] for i in _g])
      gl = [0, 1, 2, 3, 4, 5]
    e = prog[pc] = (fx, gl, bar, inst); return e
  # FP32 denormals: emulator's own loop always flushes; HIP default is denormals on (rsrc1 FLOAT_DENORM_32 = bits 16..17 == 3)
  if ftz is None: ftz = ((kd["rsrc1"] >> 16) & 3) == 0
  ctx = emu._MXCSRContext() if ftz else contextlib.nullcontext()
  with ctx, contextlib.closing(_Unmap(libc, ldsb, LDSB)):
    rnd = random.Random(order) if isinstance(order, int) else None
    wgs = list(itertools.product(range(grid[2]), range(grid[1]), range(grid[0]))) if blocks is None else [tuple(b)[::-1] for b in blocks]
    if order == "rev": wgs.reverse()
    elif rnd: rnd.shuffle(wgs)
    for gz, gy, gx in wgs:
      if census: census.begin_block()
      libc.madvise(ldsb, LDSB, 4)                                       # MADV_DONTNEED: back to zero pages
      if poison_lds: ctypes.memset(ldsb, 0xFF, 65536)                   # NaN pattern: catches reads of uninitialised LDS
      waves = []
      for ws in range(0, nthr, wave):
        st = emu._init_wave(entry, ws, nthr, *block, kptr, kd["rsrc2"], scratch, co.arch, gx, gy, gz, ud, wave)
        st._sgpr_mv[248] = 0x3e22f983   # emulator bug: HW_ID is stored over inline constant 1/(2*pi) -> v_sin/v_cos kernels got 0
        U = ctypes.c_uint64
        cb = [U(st.sgpr_buf._buf.va_addr), U(st.vgpr_buf._buf.va_addr), U(0), U(ldsb), U(sptr + ws*scratch), U(st.accvgpr_buf._buf.va_addr)]
        waves.append([st, cb, {}, False, ws//wave]); stats["waves"] += 1
      if order == "rev": waves.reverse()
      while not all(w[3] for w in waves):
        if rnd: rnd.shuffle(waves)
        for w in waves:
          if w[3]: continue
          st, cb, loc = w[:3]; mv = st._sgpr_mv
          if census: census.begin_wave(w[4])
          while True:
            pc = mv[256] | (mv[257] << 32)
            if pc == emu.ENDPGM_PC: w[3] = True; break
            e = loc.get(pc)
            if e is None:
              f = prog.get(pc) or fetch(pc); e = loc[pc] = (f[0], [cb[g] for g in f[1]], f[2], f[3])
            if trace: print(f"g{gx} w{w[4]} {pc-co.base:#x} {e[3]!r}")
            e[0](*e[1]); stats["inst"] += 1
            if census: census.issue(pc)
            if stats["inst"] > max_inst: raise BudgetSpent(f"more than {max_inst} wave-instructions")
            if e[2]: break
        if census: census.barrier()
      if census: census.end_block()
  for b, ptr, c in bufs:                                                # guard bytes untouched?
    a = ctypes.addressof(b); g = bytes(b)[ptr-a+c.nbytes:]
    if g.strip(b"\xa5"): raise MemoryError(f"{name} wrote past the end of a buffer of {c.nbytes} bytes")
  last_stats.clear(); last_stats.update(inst=stats["inst"], waves=stats["waves"], static_pcs=len(prog), compile_s=round(tc,3),
    total_s=round(time.time()-t0,3), new_handlers=len(emu._canonical_runner_cache)-stats["handlers0"], ftz=ftz, census=census and census.summary(grid[0]*grid[1]*grid[2]))
  return [np.frombuffer(ctypes.string_at(ptr, int(np.prod(sh))*dt.itemsize), dtype=dt).reshape(sh).copy() for ptr, dt, sh in outs]

if __name__ == "__main__":
  co = Hsaco(sys.argv[1]); print(co.target, co.arch)
  for k in co.kernels: print(k, co.info(k), [(a[".offset"], a[".size"], a[".value_kind"]) for a in co.kernels[k].get(".args", []) if not a[".value_kind"].startswith("hidden")])
