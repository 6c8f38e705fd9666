"""Instructions that the emulator lacks or gets wrong, done in Python, and the bounds check of memory accesses."""
import ctypes
import itertools
import numpy as np

def _views(sg, vg, wave):
  return (np.frombuffer((ctypes.c_uint32*260).from_address(sg.value), np.uint32),
          np.frombuffer((ctypes.c_uint32*(256*wave)).from_address(vg.value), np.uint32).reshape(256, wave))
def _getx(S, wave): e = int(S[126]) | (int(S[127]) << 32 if wave == 64 else 0); return e, np.array([(e >> i) & 1 for i in range(wave)], bool)
def _setx(S, wave, m):
  e = sum(1 << i for i in range(wave) if m[i]); S[126] = e & 0xffffffff
  if wave == 64: S[127] = e >> 32
def _setpc(S, v): S[256] = v & 0xffffffff; S[257] = v >> 32

def _dpp_lanes(ctrl, wave):
  """static (source lane, valid) for a DPP16 control word; None if reserved"""
  L = np.arange(wave); r, i = L & ~15, L & 15; n = ctrl & 15; ok = np.ones(wave, bool)
  if ctrl < 0x100: return (L & ~3) + np.array([(ctrl >> (2*(k & 3))) & 3 for k in range(wave)]), ok
  if 0x101 <= ctrl <= 0x10f: return r + ((i+n) & 15), i+n < 16
  if 0x111 <= ctrl <= 0x11f: return r + ((i-n) & 15), i >= n
  if 0x121 <= ctrl <= 0x12f: return r + ((i-n) & 15), ok
  if ctrl == 0x140: return r + 15 - i, ok
  if ctrl == 0x141: return (L & ~7) + 7 - (L & 7), ok
  if 0x150 <= ctrl <= 0x15f: return r + n, ok            # row_share (gfx10+) / row_newbcast (gfx90a+)
  if wave == 32 and 0x160 <= ctrl <= 0x16f: return r + (i ^ n), ok
  if wave == 64:
    if ctrl == 0x130: return (L+1) & 63, L < 63
    if ctrl == 0x134: return (L+1) & 63, ok
    if ctrl == 0x138: return (L-1) & 63, L > 0
    if ctrl == 0x13c: return (L-1) & 63, ok
    if ctrl == 0x142: return np.maximum(r-1, 0), L >= 16
    if ctrl == 0x143: return np.full(64, 31), L >= 32
  return None

V_MOV_B32, V_MOVRELD_B32, V_MOVRELS_B32, V_MOVRELSD_B32 = 1, 0x42, 0x43, 0x44
S_SET_GPR_IDX_OFF = 0xbf9c0000

def _is_vop1(word): return word >> 25 == 0x3f
def _vop1_op(word): return (word >> 9) & 0xff

def _indexed_move(pc, arch, emu):
  """f(sgprs, buffers, source index, destination index): the VOP1 move at pc with those added to its register numbers."""
  word, literal = (ctypes.c_uint32*2).from_address(pc)
  made = {}
  def move(S, b, src_index, dst_index):
    key = src_index, dst_index
    if key not in made:
      stub = (ctypes.c_uint32*8)((word & ~(0xff << 9)) + (V_MOV_B32 << 9) + src_index + (dst_index << 17), literal)
      (prg, rt), _ = emu._decode_at(ctypes.addressof(stub), arch)
      made[key] = stub, rt.fxn, list(prg.arg.globals)
    stub, function, used = made[key]
    _setpc(S, ctypes.addressof(stub)); function(*[b[g] for g in used])
  return move, 8 if word & 0x1ff == 255 else 4

def _relative(pc, arch, wave, emu):
  """Moves whose register numbers are relative to M0, which the emulator does not know. -> (fn, globals) or None"""
  word = ctypes.c_uint32.from_address(pc).value
  if arch != "cdna" and _is_vop1(word) and _vop1_op(word) in (V_MOVRELD_B32, V_MOVRELS_B32, V_MOVRELSD_B32):
    move, size = _indexed_move(pc, arch, emu); op = _vop1_op(word)
    def movrel(*b):
      S, _ = _views(b[0], b[1], wave); index = int(S[125])
      move(S, b, 0 if op == V_MOVRELD_B32 else index, 0 if op == V_MOVRELS_B32 else index); _setpc(S, pc + size)
    return movrel, [0, 1, 2, 3, 4, 5]
  if arch == "cdna" and word >> 16 == 0xbf11:                # s_set_gpr_idx_on: v_mov_b32s up to s_set_gpr_idx_off follow
    base, flags = word & 255, (word >> 8) & 15
    moves, at = [], pc + 4
    while (w := ctypes.c_uint32.from_address(at).value) != S_SET_GPR_IDX_OFF:
      if not _is_vop1(w) or _vop1_op(w) != V_MOV_B32: return None
      move, size = _indexed_move(at, arch, emu); moves.append(move); at += size
    def indexed(*b):
      S, _ = _views(b[0], b[1], wave); index = (base - 128 if base >= 128 else int(S[base])) & 255
      S[124] = (int(S[124]) & ~0xf0ff) | index | flags << 12
      for move in moves: move(S, b, index if flags & 1 else 0, index if flags & 8 else 0)
      _setpc(S, at + 4)
    return indexed, [0, 1, 2, 3, 4, 5]
  return None

def _high_registers(pc, arch, wave, emu, inst):
  """16-bit operands in v128 and up on CDNA: the emulator takes them for the high halves of v0 and up, as on RDNA3. They
  are moved to low registers around the instruction. -> (fn, globals) or None"""
  word, literal = (ctypes.c_uint32*2).from_address(pc); src0 = word & 0x1ff
  if arch != "cdna" or word >> 31 or src0 in (0xf9, 0xfa) or 16 not in inst.canonical_op_bits.values(): return None
  used = [(0, src0 - 256)] if src0 >= 256 else []           # (bit where the field starts, register)
  if not _is_vop1(word): used.append((9, (word >> 9) & 255))
  if word >> 25 != 0x3e: used.append((17, (word >> 17) & 255))   # VOPC writes no register
  registers = {register for _, register in used}
  spare = [low for low in range(128) if low not in registers]
  moved = dict(zip(sorted(register for register in registers if register >= 128), spare))
  if not moved: return None
  stub = (ctypes.c_uint32*8)(word + sum((moved[r] - r) << shift for shift, r in used if r in moved), literal)
  (prg, rt), _ = emu._decode_at(ctypes.addressof(stub), arch); globals_ = list(prg.arg.globals)
  def run(*b, _keep=stub):
    S, V = _views(b[0], b[1], wave); saved = [V[low].copy() for low in moved.values()]
    for high, low in moved.items(): V[low] = V[high]
    _setpc(S, ctypes.addressof(stub)); rt.fxn(*[b[g] for g in globals_])
    for high, low in moved.items(): V[high] = V[low]
    for low, old in zip(moved.values(), saved): V[low] = old
    _setpc(S, pc + (8 if src0 == 255 else 4))
  return run, [0, 1, 2, 3, 4, 5]

def _sdwa_modifiers(pc, arch, wave, emu):
  """Negated and absolute operands of SDWA, which the emulator ignores: they are changed beforehand. -> (fn, globals) or None"""
  word, sdwa = (ctypes.c_uint32*2).from_address(pc)
  if arch != "cdna" or word >> 31 or word & 0x1ff != 0xf9: return None
  is_vop1 = _is_vop1(word)
  operands = [(0, sdwa & 255, sdwa >> 16)] + ([] if is_vop1 else [(1, (word >> 9) & 255, sdwa >> 24)])
  changed = [(i, register, bits) for i, register, bits in operands if bits >> 4 & 3]
  if not changed: return None
  if any(bits & 0x80 for _, _, bits in changed): raise NotImplementedError("a modified scalar operand of SDWA")
  name = emu._op_name(emu.decode_inst(bytes((ctypes.c_char*16).from_address(pc).raw), arch)).upper()
  is_half = name.endswith(("_F16", "F16_SDWA")) or "_F16" in name.split("CVT_F32")[-1]
  used = {register for _, register, _ in operands} | {(word >> 17) & 255}
  spare = [v for v in (255, 254, 253, 252, 251) if v not in used]
  stub_word, stub_sdwa, moves = word, sdwa, []
  for (i, register, bits), low in zip(changed, spare):
    # The sign of what is selected: of a word its own, of the whole register that of its type.
    select, absolute, negative = bits & 7, bits >> 5 & 1, bits >> 4 & 1
    if select < 4: raise NotImplementedError("a modified byte operand of SDWA")
    sign = np.uint32(1 << (15 if select == 4 or (select == 6 and is_half) else 31))
    stub_sdwa &= ~(0x30 << (24 if i else 16))
    if i: stub_word = stub_word & ~(255 << 9) | low << 9
    else: stub_sdwa = stub_sdwa & ~255 | low
    moves.append((register, low, sign, absolute, negative))
  stub = (ctypes.c_uint32*8)(stub_word, stub_sdwa)
  (prg, rt), _ = emu._decode_at(ctypes.addressof(stub), arch); globals_ = list(prg.arg.globals)
  def run(*b, _keep=stub):
    S, V = _views(b[0], b[1], wave); saved = [V[low].copy() for _, low, *_ in moves]
    for register, low, sign, absolute, negative in moves:
      value = V[register].copy()
      if absolute: value &= ~sign
      if negative: value ^= sign
      V[low] = value
    _setpc(S, ctypes.addressof(stub)); rt.fxn(*[b[g] for g in globals_])
    for (_, low, *_), old in zip(moves, saved): V[low] = old
    _setpc(S, pc + 8)
  return run, [0, 1, 2, 3, 4, 5]

def _acc_memory(pc, arch, wave, emu):
  """DS and FLAT whose data are accumulation registers, which the emulator takes for vector registers. -> (fn, globals) or None"""
  word, fields = (ctypes.c_uint32*2).from_address(pc)
  is_ds, is_flat = word >> 26 == 0x36 and word >> 25 & 1, word >> 26 == 0x37 and fields >> 23 & 1
  if arch != "cdna" or not (is_ds or is_flat): return None
  name = emu._op_name(emu.decode_inst(bytes((ctypes.c_char*16).from_address(pc).raw), arch)).upper()
  is_load, is_store = "LOAD" in name or "READ" in name, "STORE" in name or "WRITE" in name
  if is_load == is_store or "RTN" in name: raise NotImplementedError(f"{name} on accumulation registers")
  address = {fields & 255, (fields & 255) + 1}
  spare = [base for base in (252, 248, 244, 240) if not address & set(range(base, base + 4))]
  stub_fields, moves = fields & ~(1 << 23) if is_flat else fields, []
  for shift, base in zip([24] if is_load else [8, 16] if is_ds else [8], spare):
    moves.append((fields >> shift & 255, base))
    stub_fields = stub_fields & ~(255 << shift) | base << shift
  stub = (ctypes.c_uint32*8)(word & ~(1 << 25) if is_ds else word, stub_fields)
  (prg, rt), _ = emu._decode_at(ctypes.addressof(stub), arch); globals_ = list(prg.arg.globals)
  def run(*b, _keep=stub):
    S, V = _views(b[0], b[1], wave); _, A = _views(b[0], b[5], wave)
    saved = [V[base:base+4].copy() for _, base in moves]
    for first, base in moves: held = A[first:first+4]; V[base:base+len(held)] = held
    _setpc(S, ctypes.addressof(stub)); rt.fxn(*[b[g] for g in globals_])
    for (first, base), old in zip(moves, saved):
      if is_load: A[first:first+4] = V[base:base+len(A[first:first+4])]
      V[base:base+4] = old
    _setpc(S, pc + 8)
  return run, [0, 1, 2, 3, 4, 5]

def _i8_product(left, right, old):
  """old + left @ right.T of int8, as 32-bit words."""
  return old + (left.astype(np.int32) @ right.astype(np.int32).T).astype(np.uint32)

def _f16_product(left, right, old):
  """old + left @ right.T of f16, added in f32 in the order of k, as 32-bit words."""
  sums, a, b = old.view(np.float32).copy(), left.astype(np.float32), right.astype(np.float32)
  with np.errstate(all="ignore"):
    for k in range(a.shape[1]): sums += np.outer(a[:, k], b[:, k])
  return sums.view(np.uint32)

_MFMA = {
  # The emulator cannot compile it.
  "V_MFMA_I32_16X16X32_I8": (np.int8, _i8_product),
  # The emulator takes f16 infinities and NaN for finite numbers, and subnormal numbers for 0.
  "V_MFMA_F32_16X16X16_F16": (np.float16, _f16_product),
}

def _mfma(pc, wave, name):
  """A matrix instruction of _MFMA: lane l holds row l % 16, the l / 16th quarter of its columns, in two registers. -> (fn, globals) or None"""
  found = next((value for prefix, value in _MFMA.items() if name.startswith(prefix)), None)
  if found is None: return None
  element, multiply = found
  word, fields = (ctypes.c_uint32*2).from_address(pc)
  a, b_, c = fields & 511, fields >> 9 & 511, fields >> 18 & 511
  dst, sums_in_acc, sources_in_acc = word & 255, word >> 15 & 1, fields >> 27 & 3
  if word >> 8 & 0x7f or fields >> 29 or a < 256 or b_ < 256 or (c < 256 and c != 128): raise NotImplementedError(name)
  def run(*b):
    S, V = _views(b[0], b[1], wave); _, A = _views(b[0], b[5], wave)
    def matrix(file, first):
      quarters = np.ascontiguousarray(file[first:first+2].T).view(element)                     # [lane, element]
      return quarters.reshape(4, 16, -1).transpose(1, 0, 2).reshape(16, -1)                     # [row, column]
    left, right = matrix(A if sources_in_acc & 1 else V, a - 256), matrix(A if sources_in_acc & 2 else V, b_ - 256)
    sums = A if sums_in_acc else V
    lanes = np.arange(wave)
    rows, columns = lanes // 16 * 4 + np.arange(4)[:, None], np.broadcast_to(lanes % 16, (4, wave))  # of register i, lane l
    old = np.zeros((16, 16), np.uint32)
    if c != 128: old[rows, columns] = sums[c-256:c-252]
    sums[dst:dst+4] = multiply(left, right, old)[rows, columns]
    _setpc(S, pc + 8)
  return run, [0, 1, 2, 3, 4, 5]

def _scalar_operand(S, code, literal):
  """What a source operand that is no vector register holds: a scalar register, a whole number, or the literal behind it."""
  if code == 255: return literal
  if 128 <= code <= 192: return code - 128
  if 193 <= code <= 208: return (192 - code) & 0xffffffff
  if code < 128: return int(S[code])
  raise NotImplementedError(f"source operand {code}")

def _mul_hi_i24(pc, wave, name):
  """V_MUL_HI_I32_I24, whose negative products get the upper half 0 instead of their sign. -> (fn, globals) or None"""
  if not name.startswith("V_MUL_HI_I32_I24"): return None
  w0, w1 = (ctypes.c_uint32*2).from_address(pc)
  is_vop2 = w0 >> 31 == 0
  sources = (w0 & 511, (w0 >> 9 & 255) + 256) if is_vop2 else (w1 & 511, w1 >> 9 & 511)
  vdst, size = (w0 >> 17 & 255, 8 if sources[0] == 255 else 4) if is_vop2 else (w0 & 255, 8)
  def mul(sg, vg):
    S, V = _views(sg, vg, wave); _, act = _getx(S, wave)
    a, b = ((V[c-256] if c >= 256 else np.full(wave, _scalar_operand(S, c, w1), np.uint32)).astype(np.int64) for c in sources)
    a, b = ((v & 0xffffff ^ 0x800000) - 0x800000 for v in (a, b))
    V[vdst] = np.where(act, (a * b >> 32 & 0xffffffff).astype(np.uint32), V[vdst]); _setpc(S, pc + size)
  return mul, [0, 1]

# The clock of 100 MHz, which the emulator lacks: each read is 1 ms behind the one before, whatever an emulated instruction takes.
_ticks = itertools.count(0, 100_000)
_GET_REALTIME = 131  # MSG_RTN_GET_REALTIME as an operand

def _special(pc, arch, wave, emu):
  """Instructions the emulator lacks or gets wrong, done here in Python. -> (fn, globals) or None"""
  w = (ctypes.c_uint32*3).from_address(pc); w0, w1 = w[0], w[1]
  # DPP16 on VOP1/VOP2/VOPC: the emulator's lane loop reads lanes it has already overwritten when vdst==vsrc0, and misses row_share/xmask/bcast
  if (w0 >> 31) == 0 and (w0 & 0x1ff) == 0xfa and (ls := _dpp_lanes((w1 >> 8) & 0x1ff, wave)) is not None:
    srcl, valid = ls; vsrc, fi, bc, rm, bm = w1 & 255, (w1 >> 18) & 1 if arch != "cdna" else 0, (w1 >> 19) & 1, w1 >> 28, (w1 >> 24) & 15
    L = np.arange(wave); en = (((rm >> (L >> 4)) & 1) & ((bm >> ((L >> 2) & 3)) & 1)).astype(bool)
    n0, a0, n1, a1 = (w1 >> 20) & 1, (w1 >> 21) & 1, (w1 >> 22) & 1, (w1 >> 23) & 1
    is2 = ((w0 >> 25) & 0x3f) != 0x3f; vdst = (w0 >> 17) & 255; isc = ((w0 >> 25) & 0x3f) == 0x3e
    used = {vsrc, (w0 >> 9) & 255 if is2 else -1, vdst if not isc else -1}
    sp, sp1 = [v for v in (255, 254, 253, 252, 251) if v not in used][:2]
    nw = (w0 & ~0x1ff) | (256 + sp); v1 = (w0 >> 9) & 255
    if is2 and (n1 or a1): nw = (nw & ~(0xff << 9)) | (sp1 << 9)
    stub = (ctypes.c_uint32*8)(nw); sa = ctypes.addressof(stub); (prg, rt), _ = emu._decode_at(sa, arch); gl = list(prg.arg.globals)
    f16 = "F16" in emu._op_name(emu.decode_inst(bytes(stub)[:16], arch))
    sb = 0x8000 if f16 else 0x80000000
    def dpp(*b, _keep=stub):
      S, V = _views(b[0], b[1], wave); ex, act = _getx(S, wave)
      ok = valid & (act[srcl] | bool(fi)); val = np.where(ok, V[vsrc][srcl], 0).astype(np.uint32)
      if a0: val = val & np.uint32(~sb & 0xffffffff)
      if n0: val = val ^ np.uint32(sb)
      s0, s1 = V[sp].copy(), V[sp1].copy(); V[sp] = val
      if is2 and (n1 or a1):
        t = V[v1].copy()
        if a1: t = t & np.uint32(~sb & 0xffffffff)
        if n1: t = t ^ np.uint32(sb)
        V[sp1] = t
      _setx(S, wave, act & en & (ok | bool(bc))); _setpc(S, sa)
      rt.fxn(*[b[g] for g in gl])
      V[sp], V[sp1] = s0, s1; _setx(S, wave, act); _setpc(S, pc+8)
    return dpp, [0, 1, 2, 3, 4, 5]
  if (relative := _relative(pc, arch, wave, emu)) is not None: return relative
  if (moved := _acc_memory(pc, arch, wave, emu)) is not None: return moved
  if (modified := _sdwa_modifiers(pc, arch, wave, emu)) is not None: return modified
  try: inst = emu.decode_inst(bytes((ctypes.c_char*16).from_address(pc).raw), arch)
  except Exception: return None
  if (high := _high_registers(pc, arch, wave, emu, inst)) is not None: return high
  nm = emu._op_name(inst).upper()
  if (multiplied := _mul_hi_i24(pc, wave, nm)) is not None: return multiplied
  if arch == "cdna" and (mfma := _mfma(pc, wave, nm)) is not None: return mfma
  if nm == "S_MEMREALTIME" or (nm == "S_SENDMSG_RTN_B64" and w0 & 255 == _GET_REALTIME):
    sd, size = ((w0 >> 6) & 127, 8) if nm == "S_MEMREALTIME" else ((w0 >> 16) & 127, 4)
    def clock(sg):
      S = np.frombuffer((ctypes.c_uint32*260).from_address(sg.value), np.uint32); n = next(_ticks)
      S[sd] = n & 0xffffffff; S[sd+1] = n >> 32; _setpc(S, pc + size)
    return clock, [0]
  if nm in ("S_GETPC_B64", "S_SETPC_B64", "S_SWAPPC_B64"):
    sd, ss = (w0 >> 16) & 127, w0 & 255
    def jmp(sg):
      S = np.frombuffer((ctypes.c_uint32*260).from_address(sg.value), np.uint32); t = int(S[ss]) | int(S[ss+1]) << 32; n = pc + 4
      if nm != "S_SETPC_B64": S[sd] = n & 0xffffffff; S[sd+1] = n >> 32
      _setpc(S, n if nm == "S_GETPC_B64" else t)
    return jmp, [0]
  if nm.startswith("DS_SWIZZLE"):
    off, src, vdst = w0 & 0xffff, w1 & 255, w1 >> 24; L = np.arange(wave)
    if arch == "cdna": src = w1 & 255
    if off & 0x8000:
      if off >= 0xc000: return None
      srcl = (L & ~3) + np.array([(off >> (2*(k & 3))) & 3 for k in range(wave)])
    else: srcl = (L & ~31) + ((((L & 31) & (off & 31)) | ((off >> 5) & 31)) ^ ((off >> 10) & 31))
    def swz(sg, vg):
      S, V = _views(sg, vg, wave); ex, act = _getx(S, wave); v = np.where(act[srcl], V[src][srcl], 0); V[vdst] = np.where(act, v, V[vdst]); _setpc(S, pc+8)
    return swz, [0, 1]
  if nm.startswith(("V_PERMLANE16_B32", "V_PERMLANEX16_B32")) and wave == 32:
    vdst, fi, bc, src, s1, s2 = w0 & 255, (w0 >> 11) & 1, (w0 >> 12) & 1, (w1 & 0x1ff) - 256, (w1 >> 9) & 511, (w1 >> 18) & 511
    lit = 255 in (s1, s2); x = "X16" in nm; lv = w[2] if lit else 0
    def perm(sg, vg):
      S, V = _views(sg, vg, wave); ex, act = _getx(S, wave); sel = (lv if s1 == 255 else int(S[s1])) | (lv if s2 == 255 else int(S[s2])) << 32
      srcl = np.array([((l & 16) ^ (16 if x else 0)) + ((sel >> (4*(l & 15))) & 15) for l in range(32)]); ok = act[srcl] | bool(fi)
      v = np.where(ok, V[src][srcl], 0 if bc else V[vdst]); V[vdst] = np.where(act, v, V[vdst]); _setpc(S, pc + (12 if lit else 8))
    return perm, [0, 1]
  return None

def _memcheck(pc, arch, wave, inst, emu, ranges, describe, record=None):
  """Bounds check of the active lanes of a GLOBAL/FLAT access (the emulator itself would read/write this process' memory).
  record(addresses of the active lanes, bytes of each, the instruction's name) hears of it."""
  cls = type(inst).__name__
  if not cls.startswith(("GLOBAL", "FLAT", "VGLOBAL", "VFLAT")): return None
  nm = emu._op_name(inst).upper()
  if not any(x in nm for x in ("LOAD", "STORE", "ATOMIC")): return None
  w = (ctypes.c_uint32*3).from_address(pc); w0, w1, w2 = w[0], w[1], w[2]
  if arch == "rdna4": sa, va, off = w0 & 127, w2 & 255, ((w2 >> 8) ^ 0x800000) - 0x800000
  else: sa, va, off = (w1 >> 16) & 127, w1 & 255, ((w0 & 0x1fff) ^ 0x1000) - 0x1000
  use_s = sa < 124 and not cls.startswith(("FLAT", "VFLAT"))
  nb = 1 if any(x in nm for x in ("BYTE","U8","I8","B8")) else 2 if any(x in nm for x in ("SHORT","U16","I16","B16")) else max(4, inst.canonical_op_bits.get("data", 32)//8)
  if "CMPSWAP" in nm: nb = 8 if "X2" in nm or "B64" in nm else 4
  lo = np.array([r[0] for r in ranges], np.uint64); hi = np.array([r[1] for r in ranges], np.uint64)
  def chk(sg, vg):
    S, V = _views(sg, vg, wave); _, act = _getx(S, wave)
    if not act.any(): return
    a = (V[va].astype(np.uint64) + np.uint64(int(S[sa]) | int(S[sa+1]) << 32)) if use_s else V[va].astype(np.uint64) | (V[va+1].astype(np.uint64) << np.uint64(32))
    a = (a.astype(np.int64) + off).astype(np.uint64)[act]
    if record is not None: record(a, nb, nm)
    ok = ((a[:, None] >= lo) & (a[:, None] + np.uint64(nb) <= hi)).any(1)
    if not ok.all():
      bad = int(a[~ok][0]); lane = int(np.flatnonzero(act)[np.flatnonzero(~ok)[0]])
      near = min(range(len(ranges)), key=lambda i: abs(bad - int(lo[i])) if bad < int(lo[i]) else max(0, bad - int(hi[i])))
      raise MemoryError(f"out-of-bounds {nb}-byte {nm} in lane {lane}: address is {bad-int(lo[near]):+d} bytes from start of {ranges[near][2]} (size {int(hi[near]-lo[near])}), pc {describe(pc)}")
  return chk

def _skipper(n):
  def skip(sg, *_):
    m = (ctypes.c_uint32*2).from_address(sg.value+1024); v = (m[0] | m[1]<<32) + n; m[0] = v & 0xffffffff; m[1] = v >> 32
  return skip

