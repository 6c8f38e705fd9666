import { Metadata } from '@grpc/grpc-js';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ERRORS, type ErrorReason, RocmForgeError } from '../../../src/shared/errors.js';
import { BadRequest } from '../../../src/shared/generated/google/rpc/error_details.js';
import { Status } from '../../../src/shared/generated/google/rpc/status.js';
import { errorInfo, toStatus } from '../../../src/shared/grpc/status.js';
import { runs, seed } from '../../support/run-size.js';

/** Bytes of the trailers that carry a status, as HTTP/2 counts them. */
function trailerBytes(status: ReturnType<typeof toStatus>): number {
  const headers = status.metadata?.toHttp2Headers() ?? {};
  const metadata = Object.entries(headers).map(([key, value]) => key.length + String(value).length + 32);
  return encodeURI(status.details ?? '').length + metadata.reduce((sum, bytes) => sum + bytes, 0);
}

describe('the status of an error', () => {
  it('cuts what it quotes to 64 characters and keeps the sentence around it', () => {
    const message = `there is no model "${'m'.repeat(5000)}" here, only "demo"`;
    const { details } = toStatus(new RocmForgeError('MODEL_NOT_FOUND', message, { field: 'model' }));
    expect(details).toBe(`there is no model "${'m'.repeat(64)}…" here, only "demo"`);
  });

  it('says the same in BadRequest and Status', () => {
    const error = new RocmForgeError('INVALID_FIELD', `chat role "${'x'.repeat(70_000)}" is none`, { field: 'chat' });
    const status = toStatus(error);
    const [bytes] = (status.metadata ?? new Metadata()).get('grpc-status-details-bin') as [Buffer];
    const decoded = Status.decode(bytes);
    const bad = decoded.details.find(({ typeUrl }) => typeUrl.endsWith('BadRequest'));
    expect(decoded.message).toBe(status.details);
    expect(BadRequest.decode(bad?.value as Buffer).fieldViolations[0]?.description).toBe(status.details);
  });

  it('fits 8 KiB of trailers, the least that clients take, whatever the message and metadata hold', () => {
    let most = 0;
    const text = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 30 }).chain((part) => fc.nat(3000).map((n) => part.repeat(n))),
      // Lone surrogates, too: a message is whatever somebody sent.
      fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 3000 }).map((units) => String.fromCharCode(...units)),
    );
    fc.assert(
      fc.property(
        fc.constantFrom(...(Object.keys(ERRORS) as ErrorReason[])),
        text,
        fc.dictionary(text, text, { maxKeys: 8 }),
        (reason, message, metadata) => {
          const status = toStatus(new RocmForgeError(reason, message, { ...metadata, field: 'stop.strings' }));
          most = Math.max(most, trailerBytes(status));
          expect(errorInfo({ metadata: status.metadata as Metadata })).toMatchObject({
            reason,
            metadata: { field: 'stop.strings' },
          });
        },
      ),
      { numRuns: runs(300), seed: seed(20261121) },
    );
    console.log(`the largest trailers: ${most} bytes`);
    expect(most).toBeGreaterThan(3000);
    expect(most).toBeLessThan(8192 - 512);
  });
});
