"""AMD code objects (HSACO, version 4 or 5): ELF, metadata and kernel descriptors, with nothing but the standard library."""
import ctypes, mmap, struct

def _msgpack(b, o=0):
  c = b[o]; o += 1
  def s(n, o): return b[o:o+n].decode(), o+n
  def arr(n, o):
    r = []
    for _ in range(n): v, o = _msgpack(b, o); r.append(v)
    return r, o
  def mp(n, o):
    r = {}
    for _ in range(n):
      k, o = _msgpack(b, o); r[k], o = _msgpack(b, o)
    return r, o
  if c <= 0x7f: return c, o
  if c <= 0x8f: return mp(c & 15, o)
  if c <= 0x9f: return arr(c & 15, o)
  if c <= 0xbf: return s(c & 31, o)
  if c >= 0xe0: return c - 256, o
  if c == 0xc0: return None, o
  if c in (0xc2, 0xc3): return c == 0xc3, o
  F = {0xca:'>f',0xcb:'>d',0xcc:'>B',0xcd:'>H',0xce:'>I',0xcf:'>Q',0xd0:'>b',0xd1:'>h',0xd2:'>i',0xd3:'>q'}
  if c in F: n = struct.calcsize(F[c]); return struct.unpack_from(F[c], b, o)[0], o+n
  L = {0xc4:'>B',0xc5:'>H',0xc6:'>I',0xd9:'>B',0xda:'>H',0xdb:'>I',0xdc:'>H',0xdd:'>I',0xde:'>H',0xdf:'>I'}[c]
  n = struct.unpack_from(L, b, o)[0]; o += struct.calcsize(L)
  if c <= 0xc6: return b[o:o+n], o+n
  if c <= 0xdb: return s(n, o)
  return (arr if c <= 0xdd else mp)(n, o)

MACH = {0x041:("gfx1100","rdna3"),0x046:("gfx1101","rdna3"),0x047:("gfx1102","rdna3"),0x044:("gfx1103","rdna3"),0x043:("gfx1150","rdna3"),
        0x04a:("gfx1151","rdna3"),0x055:("gfx1152","rdna3"),0x048:("gfx1200","rdna4"),0x04e:("gfx1201","rdna4"),
        0x03f:("gfx90a","cdna"),0x040:("gfx940","cdna"),0x04b:("gfx941","cdna"),0x04c:("gfx942","cdna"),0x04f:("gfx950","cdna"),
        0x030:("gfx908","cdna"),0x02f:("gfx906","cdna"),0x054:("gfx11-generic","rdna3"),0x059:("gfx12-generic","rdna4")}

class Hsaco:
  def __init__(self, data):
    if not isinstance(data, (bytes, bytearray)): data = open(data, "rb").read()
    if data[:24] == b"__CLANG_OFFLOAD_BUNDLE__":   # unwrap: take the first amdgcn entry
      n, o = struct.unpack_from("<Q", data, 24)[0], 32
      for _ in range(n):
        off, sz, tl = struct.unpack_from("<QQQ", data, o); t = data[o+24:o+24+tl]; o += 24+tl
        if b"amdgcn" in t and sz: data = data[off:off+sz]; break
    assert data[:4] == b"\x7fELF" and struct.unpack_from("<H", data, 18)[0] == 224, "not an AMDGPU ELF"
    self.data = d = bytes(data)
    phoff, shoff = struct.unpack_from("<QQ", d, 32); self.flags = struct.unpack_from("<I", d, 48)[0]
    phes, phn, shes, shn, shstr = struct.unpack_from("<HHHHH", d, 54)
    self.target, self.arch = MACH.get(self.flags & 0xff, (f"mach_{self.flags&0xff:#x}", None))
    ph = [struct.unpack_from("<IIQQQQQQ", d, phoff+i*phes) for i in range(phn)]
    size = max(p[3]+p[6] for p in ph if p[0] == 1)
    self._map = mmap.mmap(-1, (size + 8191) & ~4095)
    self.base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
    for t, fl, off, va, pa, fsz, msz, al in ph:
      if t == 1: ctypes.memmove(self.base+va, d[off:off+fsz], fsz)
    self.syms, self.meta = {}, None
    sh = [struct.unpack_from("<IIQQQQIIQQ", d, shoff+i*shes) for i in range(shn)]
    for n_, ty, fl, addr, off, sz, link, info, al, es in sh:
      if ty in (2, 11):                                     # SYMTAB, DYNSYM
        stro = sh[link][4]
        for i in range(sz//24):
          nm, inf, oth, shx, val, ssz = struct.unpack_from("<IBBHQQ", d, off+i*24)
          s = d[stro+nm:d.index(b"\0", stro+nm)].decode()
          if s: self.syms[s] = (val, ssz)
      elif ty == 7:                                         # NOTE
        o = off
        while o < off+sz:
          nsz, dsz, nt = struct.unpack_from("<III", d, o); o += 12
          nm = d[o:o+nsz].rstrip(b"\0"); o += (nsz+3)&~3
          if nt == 32 and nm == b"AMDGPU": self.meta = _msgpack(d[o:o+dsz])[0]
          o += (dsz+3)&~3
      elif ty == 4:                                         # RELA
        syo, sto = sh[link][4], sh[sh[link][6]][4]
        for i in range(sz//24):
          ro, ri, ra = struct.unpack_from("<QQq", d, off+i*24); rt = ri & 0xffffffff
          sv = struct.unpack_from("<IBBHQQ", d, syo+(ri>>32)*24)[4]
          if rt == 13: v = self.base + ra                   # R_AMDGPU_RELATIVE64
          elif rt == 3: v = self.base + sv + ra             # R_AMDGPU_ABS64
          else: raise NotImplementedError(f"reloc type {rt}")
          ctypes.c_uint64.from_address(self.base+ro).value = v & (2**64-1)
    self.kernels = {k[".name"]: k for k in self.meta["amdhsa.kernels"]}
  def kd(self, name):
    b = ctypes.string_at(self.base + self.syms[self.kernels[name][".symbol"]][0], 64)
    lds, priv, karg = struct.unpack_from("<III", b, 0); entry = struct.unpack_from("<q", b, 16)[0]
    r3, r1, r2 = struct.unpack_from("<III", b, 44); props, preload = struct.unpack_from("<HH", b, 56)
    return dict(lds=lds, priv=priv, kernarg=karg, rsrc1=r1, rsrc2=r2, rsrc3=r3, props=props, preload=preload,
                entry=self.base + self.syms[self.kernels[name][".symbol"]][0] + entry)
  def info(self, name):
    k = self.kernels[name]
    return {x[1:]: k.get(x) for x in (".vgpr_count",".agpr_count",".sgpr_count",".vgpr_spill_count",".sgpr_spill_count",
      ".group_segment_fixed_size",".private_segment_fixed_size",".wavefront_size",".kernarg_segment_size",".max_flat_workgroup_size")}

