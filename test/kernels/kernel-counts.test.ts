import { describe, expect, it } from 'vitest';
import { type CountsTable, countInstructions, countsTable, readCounts, worsened } from '../../tools/kernel-counts.mjs';
import type { Manifest } from '../../tools/kernel-limits.mjs';

const DISASSEMBLY = `
build/x.hsaco:	file format elf64-amdgpu

Disassembly of section .text:

0000000000001000 <mine>:
	s_load_b128 s[4:7], s[0:1], 0x28                           // 000000001000: F4080100 F8000028
	v_mov_b32_e32 v0, 0                                        // 000000001008: 7E000280
	global_load_b128 v[4:7], v0, s[0:1]                        // 00000000100C: DC5E0000 04000000
	s_waitcnt vmcnt(0)                                         // 000000001014: BF8903F7
	v_dot4_i32_iu8 v1, v2, v3, v1 neg_lo:[1,1,0]               // 000000001018: CC164001 1C0607C2
	s_delay_alu instid0(VALU_DEP_1)                            // 000000001020: BF870001
	s_cbranch_scc1 65531                                       // 000000001024: BFA2FFFB <mine+0xc>
	v_exp_f32_e32 v0, v0                                       // 000000001028: 7E004B00
	s_cbranch_execz 2                                          // 00000000102C: BFA50002 <mine+0x38>
	ds_store_b32 v0, v1                                        // 000000001030: D8340000 00000100
	s_endpgm                                                   // 000000001038: BFB00000

0000000000001100 <helper>:
	v_mov_b32_e32 v0, 0                                        // 000000001100: 7E000280
`;
const manifest = (changes: object): Manifest => ({
  target: 'gfx1100',
  compiler: 'clang 1',
  files: [
    {
      kernels: [{ name: 'mine', wave: 32, vgprs: 32, sgprs: 20, lds: 0, scratch: 0, vgprSpills: 0, ...changes }],
    },
  ],
});

describe('the count of instructions', () => {
  it('tells classes apart, and what is in a loop', () => {
    const { all, loops } = countInstructions(DISASSEMBLY, ['mine']).get('mine')!;
    expect(all).toMatchObject({
      scalarLoad: 1,
      vector: 1,
      load: 1,
      wait: 1,
      dot: 1,
      free: 1,
      transcendental: 1,
      lds: 1,
    });
    expect(all).toMatchObject({ branch: 3, matrix: 0, store: 0, scalar: 0 });
    expect(loops).toMatchObject({ load: 1, wait: 1, dot: 1, free: 1, branch: 1, vector: 0, transcendental: 0, lds: 0 });
  });

  it('refuses what it does not know', () => {
    expect(() => countInstructions(DISASSEMBLY.replace('ds_store', 'new_store'), ['mine'])).toThrow('new_store_b32');
  });

  const counts = (changes: object = {}, edit = (text: string) => text): CountsTable =>
    readCounts(edit(countsTable(manifest(changes), countInstructions(DISASSEMBLY, ['mine']))));

  it('reads what it wrote', () => {
    const { compiler, kernels } = counts();
    expect(compiler).toBe('clang 1');
    expect(kernels.get('mine')).toMatchObject({ vgprs: 32, dot: 1, 'dot in loops': 1, 'lds in loops': 0 });
  });

  it('says what became worse, and nothing of what did not', () => {
    expect(worsened(counts(), counts())).toEqual([]);
    expect(worsened(counts(), counts({ vgprs: 200 })).join()).toContain('waves a SIMD fit');
    expect(worsened(counts({ vgprs: 200 }), counts())).toEqual([]);
    expect(worsened(counts(), counts({ scratch: 8 })).join()).toContain('8 bytes of scratch');
    const renamed = counts({}, (text) => text.replace('mine', 'yours'));
    expect(worsened(counts(), renamed)).toEqual(['yours is new', 'mine is gone']);
    const longer = counts();
    const more = { ...longer.kernels.get('mine')!, 'dot in loops': 40 };
    expect(worsened(counts(), { ...longer, kernels: new Map([['mine', more]]) })).toEqual([
      'mine: 43 instructions in loops, 4 before',
    ]);
  });
});
