import { expect, it } from 'vitest';
import { TensorReader } from '../../src/executor/model/tensor-reader.js';
import type { GgufTensor } from '../../src/lib/gguf/reader.js';

const MIB = 1 << 20;
const tensor = (name: string, mebibytes: number) =>
  ({
    name,
    type: 'F32',
    dims: [(mebibytes * MIB) / 4],
    offset: 0,
    bytes: mebibytes * MIB,
    part: 0,
  }) as unknown as GgufTensor;
const tensors = [tensor('a', 200), tensor('b', 1), tensor('c', 1), tensor('d', 130)];

/** Content whose reads end when they are told to, each with a checksum of its own. */
class HeldContent {
  readonly begun: string[] = [];
  private readonly ends: (() => void)[] = [];

  read(of: GgufTensor, from: number, bytes: number): Promise<bigint> {
    this.begun.push(`${of.name} ${from / MIB}+${bytes / MIB}`);
    const sum = (BigInt(of.name.charCodeAt(0)) << 57n) + BigInt(from + bytes);
    return new Promise((resolve) => this.ends.push(() => resolve(sum)));
  }

  endAll(): void {
    for (const end of this.ends.splice(0)) end();
  }
}

async function read(content: HeldContent, order: readonly GgufTensor[]): Promise<[bigint, string[]]> {
  const reader = new TensorReader(content, order);
  const used: string[] = [];
  for (const one of order) {
    const reading = reader.read(one, ({ from, span }) => used.push(`${one.name} ${from / MIB}+${span / MIB}`));
    const ending = setInterval(() => content.endAll());
    await reading;
    clearInterval(ending);
  }
  await reader.settled();
  return [reader.checksum, used];
}

it('reads four chunks at once, over the ends of tensors, and uses them in their order', async () => {
  const content = new HeldContent();
  const [, used] = await read(content, tensors);
  expect(used).toEqual(['a 0+64', 'a 64+64', 'a 128+64', 'a 192+8', 'b 0+1', 'c 0+1', 'd 0+64', 'd 64+64', 'd 128+2']);
  expect(content.begun).toEqual(used);
  const held = new HeldContent();
  new TensorReader(held, tensors);
  expect(held.begun).toEqual(used.slice(0, 4));
});

it('has the same checksum in whatever order it reads, and another one of other content', async () => {
  const [sum] = await read(new HeldContent(), tensors);
  expect(sum).toBeLessThan(1n << 64n);
  expect((await read(new HeldContent(), [...tensors].reverse()))[0]).toBe(sum);
  expect((await read(new HeldContent(), tensors.slice(1)))[0]).not.toBe(sum);
});

it('is settled when nothing is read any more, whether it was used or not', async () => {
  const content = new HeldContent();
  const reader = new TensorReader(content, tensors);
  let isSettled = false;
  const settled = reader.settled().then(() => {
    isSettled = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(isSettled).toBe(false);
  content.endAll();
  await settled;
});
