import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { readFaultRecord } from '../../src/shared/fault-record.js';
import { runs } from '../support/run-size.js';

const file = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'record');

/** A record as `native/fault_record.h` lays it out: serving, in step 5, one launch. */
function record(): Buffer {
  const bytes = Buffer.alloc(4096);
  bytes.writeUInt32LE(0x52464652, 0);
  bytes.writeUInt32LE(2, 4);
  bytes.writeUInt32LE(3, 8);
  bytes.writeBigUInt64LE(5n, 32);
  bytes.writeBigUInt64LE(4n, 40);
  bytes.writeBigUInt64LE(1n, 48);
  const launch = 120 + 256;
  bytes.writeBigUInt64LE(5n, launch);
  bytes.writeInt32LE(12, launch + 8);
  bytes.writeUInt32LE(2, launch + 20);
  bytes.write('rms_norm', launch + 24);
  return bytes;
}

const readBack = (bytes: Buffer) => {
  writeFileSync(file, bytes);
  return readFaultRecord(file);
};

it('is read as it was written', () => {
  expect(readBack(record())).toMatchObject({
    phase: 'serving',
    steps: [5, 5],
    launch: { kernel: 'rms_norm', step: 5, arguments: ['0x0', '0x0'] },
  });
});

it('of several devices names the one that the last launch was on', () => {
  const bytes = record();
  bytes.writeUInt16LE(2, 120 + 256 + 22);
  expect(readBack(bytes)?.launch).toMatchObject({ device: 1, arguments: ['0x0', '0x0'] });
});

it('of another version is none', () => {
  const bytes = record();
  bytes.writeUInt32LE(1, 4);
  expect(readBack(bytes)).toBeUndefined();
});

it('of a process that scribbled on it is read as far as that goes, and never throws', () => {
  const noise = fc.array(fc.tuple(fc.nat(4095), fc.nat(255)), { maxLength: 64 });
  fc.assert(
    fc.property(noise, fc.nat(4096), (changes, length) => {
      const bytes = record();
      for (const [at, value] of changes) bytes[at] = value;
      const read = readBack(length % 4 === 0 ? bytes.subarray(0, length) : bytes);
      expect(read?.launch?.arguments.length ?? 0).toBeLessThanOrEqual(32);
      JSON.stringify(read);
    }),
    { numRuns: runs(1500) },
  );
});

it('with a number of arguments that nothing can have is cut to what there is room for', () => {
  const bytes = record();
  bytes.writeUInt32LE(1000, 120 + 256 + 20);
  expect(readBack(bytes)?.launch?.arguments).toHaveLength(32);
});

it('that is not a file, or is gone, is none', () => {
  expect(readFaultRecord('/dev')).toBeUndefined();
  expect(readFaultRecord('/nonexistent')).toBeUndefined();
});
