// The clock of a warp of NVIDIA's machine code, as census.py has it of a wave: from a listing with control words (cuobjdump -sass) and
// how often a profiler saw each instruction executed. Which way branches go is taken from that: the way that most warps went.

const BARRIERS = 6;
/** Turns of a loop that are followed; the others are taken to be like the last of them. */
const FOLLOWED = 3;

/**
 * @typedef {object} Instruction
 * @property {string} text
 * @property {string} opcode
 * @property {number | undefined} target where a branch goes
 * @property {number} stall of the control word: cycles to the next instruction
 * @property {number} sets the barrier that says when its value is there
 * @property {number} waits bits of the barriers that it waits for
 */

/**
 * The instructions of each function of a listing.
 *
 * @param {string} listing
 * @returns {Map<string, Instruction[]>} by function
 */
export function functionsOf(listing) {
  const functions = new Map();
  /** @type {Instruction[] | undefined} */
  let current;
  for (const line of listing.split('\n')) {
    const name = /Function : (\S+)/.exec(line)?.[1];
    if (name !== undefined) {
      current = [];
      functions.set(name, current);
      continue;
    }
    if (current === undefined) continue;
    const found = /^\s+\/\*([0-9a-f]{4,})\*\/\s+(.*?)\s*;\s+\/\* 0x([0-9a-f]{16}) \*\/$/.exec(line);
    if (found !== null) {
      const words = found[2]
        .replace(/^@!?U?P\w+ /, '')
        .trim()
        .split(/[\s,]+/);
      const target = /^(BRA|BRX)/.test(words[0]) ? /0x([0-9a-f]+)$/.exec(found[2])?.[1] : undefined;
      const at = target === undefined ? undefined : Number.parseInt(target, 16);
      current.push({ text: found[2], opcode: words[0], target: at, stall: 0, sets: BARRIERS, waits: 0 });
      continue;
    }
    const control = /^\s+\/\* 0x([0-9a-f]{16}) \*\/$/.exec(line)?.[1];
    const last = current.at(-1);
    if (control !== undefined && last !== undefined) Object.assign(last, controlOf(BigInt(`0x${control}`)));
  }
  return functions;
}

function controlOf(word) {
  const bits = (from, count) => Number((word >> BigInt(from)) & BigInt((1 << count) - 1));
  return { stall: bits(41, 4), sets: bits(46, 3), waits: bits(52, BARRIERS) };
}

/**
 * @param {readonly Instruction[]} instructions
 * @param {readonly number[]} executed how often each is, by a warp on average
 * @param {object} of
 * @param {(index: number) => number | undefined} of.latencyOf ns from an instruction that reads memory to its value; undefined for others
 * @param {(index: number) => boolean} of.isFar whether what it reads is memory beyond the caches
 * @param {import('./hardware.mjs').Card} of.card
 * @returns {{ chain: number, head: number, drain: number }} ns; as the census' of a block
 */
export function clockOf(instructions, executed, { latencyOf, isFar, card }) {
  const loops = instructions.flatMap(({ target }, last) => {
    const first = target === undefined ? -1 : target / 16;
    return first >= 0 && first <= last && executed[last] > 0 ? [{ first, last }] : [];
  });
  const cycle = 1 / card.clockGhz;
  /**
   * @type {{ now: number, ready: number[], far: boolean[], copies: [ready: number, far: boolean][],
   *   groups: [ready: number, far: boolean][], head: number | undefined, last: number }}
   */
  const state = {
    ...{ now: 0, ready: Array(BARRIERS).fill(0), far: Array(BARRIERS).fill(false) },
    ...{ copies: [], groups: [], head: undefined, last: 0 },
  };
  const waitFor = (ready, far) => {
    if (far) {
      if (state.head === undefined) state.head = Math.max(state.now, ready);
      state.last = Math.max(state.last, ready);
    }
    state.now = Math.max(state.now, ready);
  };
  const step = (i) => {
    const { opcode, text, stall, sets, waits } = instructions[i];
    for (let at = 0; at < BARRIERS; at += 1) {
      if ((waits & (1 << at)) === 0) continue;
      waitFor(state.ready[at], state.far[at]);
      state.far[at] = false;
    }
    if (opcode.startsWith('DEPBAR')) {
      const remain = Number.parseInt(/0x([0-9a-f]+)$/.exec(text)?.[1] ?? '0', 16);
      for (const [ready, far] of state.groups.splice(0, Math.max(0, state.groups.length - remain))) waitFor(ready, far);
    }
    const latency = latencyOf(i);
    if (latency !== undefined) {
      const ready = state.now + latency;
      if (opcode.startsWith('LDGSTS')) state.copies.push([ready, isFar(i)]);
      else if (sets < BARRIERS) {
        state.ready[sets] = Math.max(state.ready[sets], ready);
        state.far[sets] ||= isFar(i);
      }
    }
    if (opcode === 'LDGDEPBAR') {
      state.groups.push([Math.max(0, ...state.copies.map(([at]) => at)), state.copies.some(([, far]) => far)]);
      state.copies = [];
    }
    state.now += Math.max(1, stall) * cycle;
  };
  const walk = (first, last, base, inside) => {
    for (let i = first; i <= last; i += 1) {
      const loop = loops
        .filter((of) => of.first === i && of.last <= last && of !== inside)
        .sort((a, b) => b.last - a.last)[0];
      if (loop === undefined) {
        if (executed[i] >= base / 2) step(i);
        continue;
      }
      const turnsOfAll = Math.max(...executed.slice(loop.first, loop.last + 1));
      const entered = Math.min(base, executed[Math.max(0, i - 1)] || base);
      const entries = Math.max(turnsOfAll - executed[loop.last], entered);
      if (entries >= base / 2 && turnsOfAll > 0) turns(loop, turnsOfAll / entries, turnsOfAll);
      i = loop.last;
    }
  };
  const turns = (loop, count, base) => {
    let before = state.now;
    const followed = Math.min(FOLLOWED, Math.max(1, Math.round(count)));
    for (let turn = 0; turn < followed; turn += 1) {
      before = state.now;
      walk(loop.first, loop.last, base, loop);
    }
    const more = Math.max(0, count - followed) * (state.now - before);
    state.now += more;
    state.ready = state.ready.map((ready) => ready + more);
    state.last += more;
  };
  walk(0, instructions.length - 1, executed[0], undefined);
  const head = state.head ?? state.now;
  return { chain: state.now, head, drain: state.head === undefined ? 0 : Math.max(0, state.now - state.last) };
}
