"""What blocks execute, and how long one alone would take: counts of instructions, lines of memory, banks of LDS, and a clock
of each wave that waits where the wave's wait instructions do."""
import ctypes
import re
import numpy as np

LINE = 128        # bytes
SECTOR = 64       # bytes: what of a line is counted as read, its rest being a neighbouring block's
BANKS = 32        # of four bytes each, of the part of LDS that a compute unit reads
PASS_DWORDS = 32  # that a pass over the banks moves at most

class Waits:
  """What a wait instruction lets remain outstanding, by counter: `load`, `lds`, `scalar` (in nothing waited for: absent)."""
  def __init__(self, **remain): self.remain = remain

def waits_of(name, imm, arch):
  """A wait instruction's Waits, or None. Counters that stores and exports use are not followed: nothing reads what they make."""
  if name in ("S_WAITCNT_VMCNT",): return Waits(load=imm & 0xffff)
  if name in ("S_WAITCNT_LGKMCNT",): return Waits(lds=imm & 0xffff, scalar=imm & 0xffff)
  if name == "S_WAITCNT":
    if arch == "cdna": load, lgkm, most = (imm & 15) | (imm >> 14 & 3) << 4, imm >> 8 & 15, (63, 15)
    else: load, lgkm, most = imm >> 10 & 63, imm >> 4 & 63, (63, 63)
    remain = {}
    if load < most[0]: remain["load"] = load
    if lgkm < most[1]: remain["lds"] = remain["scalar"] = lgkm
    return Waits(**remain)
  if name == "S_WAIT_LOADCNT": return Waits(load=imm)
  if name == "S_WAIT_DSCNT": return Waits(lds=imm)
  if name == "S_WAIT_KMCNT": return Waits(scalar=imm)
  if name == "S_WAIT_LOADCNT_DSCNT": return Waits(load=imm >> 8 & 63, lds=imm & 63)
  if name == "S_WAIT_STORECNT_DSCNT": return Waits(lds=imm & 63)
  return None

def lds_passes(addresses, nbytes):
  """Passes over the banks that an access takes, and what it would take without conflicts. Lanes go in groups that ask for no more than a
  pass moves; lanes that ask for one dword share it."""
  dwords = max(1, (nbytes + 3) // 4)
  group = max(1, PASS_DWORDS // dwords)
  first = (addresses // 4).astype(np.int64)
  passes = least = 0
  for at in range(0, len(first), group):
    wanted = np.unique((first[at:at+group, None] + np.arange(dwords)).ravel())
    passes += int(np.bincount(wanted % BANKS).max()); least += 1
  return passes, least

class _Wave:
  def __init__(self): self.clock, self.load, self.lds, self.scalar = 0.0, [], [], []

class Census:
  """How often each instruction is executed, by its offset in the kernel; which lines and sectors of memory accesses touch; and clocks.

  latency: nanoseconds from an instruction to its value: `far` (memory), `near` (sectors that a block has asked for before),
  `lds`, `scalar`; `issue`: of an instruction to the next of the same wave. A wave's loads return in the order in which they were sent."""
  def __init__(self, entry, latency=None):
    self.entry, self.latency = entry, latency or dict(far=0, near=0, lds=0, scalar=0, issue=0)
    self.executed, self.known = {}, set()
    # Of each block that ran.
    self.blocks, self.clocks, self.asked, self.passes, self.conflicts, self.waits, self.loaded = [], [], [], [], [], [], []
  def begin_block(self):
    if self.blocks: self.known = set(self.blocks[0])
    self.blocks.append(set()); self.waves = {}
    for counter in (self.asked, self.passes, self.conflicts, self.waits, self.loaded): counter.append(0)
    self.clocks.append(dict(chain=0.0, head=None, drain=0.0))
  def begin_wave(self, wave):
    self.now = self.waves.setdefault(wave, _Wave())
  def issue(self, pc):
    self.now.clock += self.latency["issue"]
    counts = self.executed.setdefault(pc, [])
    while len(counts) < len(self.blocks): counts.append(0)
    counts[-1] += 1
  def watch(self, pc, inst, name, arch, wave, views, active):
    """What to do before an instruction that waits, reads LDS or loads scalars is executed: f(sgprs, vgprs), or None.
    views and active: instructions.py's, of a wave's registers and lanes."""
    words = (ctypes.c_uint32*2).from_address(pc)
    if name.startswith("S_WAIT"):
      waits = waits_of(name, words[0] & 0xffff, arch)
      return (lambda sg, vg: self.wait(waits)) if waits is not None and waits.remain else None
    if name.startswith(("S_LOAD_", "S_BUFFER_LOAD_")): return lambda sg, vg: self.record_scalar()
    if not name.startswith("DS_"): return None
    if any(part in name for part in ("SWIZZLE", "PERMUTE")): return lambda sg, vg: self._sent("lds", "lds")
    if not any(part in name for part in ("LOAD", "READ", "STORE", "WRITE")): return None
    size = max((int(bits) // 8 for bits in re.findall(r"_[BUI](8|16|32|64|96|128)\b", name.replace("_D16", "").replace("_HI", ""))), default=4)
    is_load, low, high = any(part in name for part in ("LOAD", "READ")), words[0] & 255, words[0] >> 8 & 255
    is_two = "2ADDR" in name or "READ2" in name or "WRITE2" in name
    scale = size * (64 if "64" in name.replace("B64", "") and is_two else 1)
    offsets = (low * scale, high * scale) if is_two else (words[0] & 0xffff,)
    register = words[1] & 255
    def access(sg, vg):
      S, V = views(sg, vg, wave); _, lanes = active(S, wave)
      if lanes.any(): self.record_lds([V[register][lanes].astype(np.int64) + offset for offset in offsets], size, is_load)
    return access
  def barrier(self):
    latest = max(wave.clock for wave in self.waves.values())
    for wave in self.waves.values(): wave.clock = latest
  def end_block(self):
    block = self.clocks[-1]; block["chain"] = max(wave.clock for wave in self.waves.values())
    if block["head"] is None: block["head"] = block["chain"]
    block["drain"] = max(0.0, block["chain"] - block.pop("last", block["chain"]))
  def record(self, addresses, nbytes, name):
    loads = "STORE" not in name
    first = addresses // np.uint64(SECTOR); last = (addresses + np.uint64(nbytes - 1)) // np.uint64(SECTOR)
    sectors = set(first.tolist()) | set(last.tolist())
    lines = {sector * SECTOR // LINE for sector in sectors}
    self.asked[-1] += len(lines)
    if loads:
      # What the first block of a launch asked for, another has brought nearer.
      is_near = sectors <= self.blocks[-1] or sectors <= self.known
      self._sent("load", "near" if is_near else "far")
      if not is_near: self.loaded[-1] += nbytes * len(addresses)
    self.blocks[-1] |= sectors
  def record_lds(self, accesses, nbytes, loads):
    for addresses in accesses:
      passes, least = lds_passes(addresses, nbytes)
      self.passes[-1] += passes; self.conflicts[-1] += passes - least
    if loads: self._sent("lds", "lds")
  def record_scalar(self): self._sent("scalar", "scalar")
  def _sent(self, queue, latency):
    pending = getattr(self.now, queue)
    ready = self.now.clock + self.latency[latency]
    if pending and queue != "scalar": ready = max(ready, pending[-1][0])
    pending.append((ready, latency))
  def wait(self, waits):
    now, block = self.now, self.clocks[-1]
    for queue, remain in waits.remain.items():
      pending = getattr(now, queue)
      done = pending[:max(0, len(pending) - remain)]
      if not done: continue
      # Scalar loads return in any order: code waits for all of them.
      ready = max(at for at, _ in done); del pending[:len(done)]
      if any(kind == "far" for _, kind in done):
        if ready > now.clock: self.waits[-1] += 1
        if block["head"] is None or ready < block["head"]: block["head"] = ready
        block["last"] = max(block.get("last", 0.0), ready)
      now.clock = max(now.clock, ready)
  def summary(self, blocks):
    """blocks: of the whole grid. Of four that ran the first and the last stand for themselves, those between them for all others."""
    ran = len(self.blocks)
    weights = [1, blocks / 2 - 1, blocks / 2 - 1, 1] if ran == 4 else [blocks / ran] * ran
    mean = lambda numbers: sum(weight * number for weight, number in zip(weights, numbers)) / blocks
    at = lambda pc: str(pc - self.entry)
    shared = set.intersection(*self.blocks) if ran > 1 else set()
    return {
      "executed": {at(pc): mean(n) for pc, n in sorted(self.executed.items())},
      "asked": mean(self.asked), "touched": SECTOR * mean([len(sectors) for sectors in self.blocks]), "shared": SECTOR * len(shared),
      "ldsPasses": mean(self.passes), "ldsConflicts": mean(self.conflicts), "waits": mean(self.waits), "farBytes": mean(self.loaded),
      **{name: mean([clock[name] for clock in self.clocks]) for name in ("chain", "head", "drain")},
      "longestChain": max(clock["chain"] for clock in self.clocks),
    }
