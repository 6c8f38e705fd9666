import type { ServiceError } from '@grpc/grpc-js';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parseJson } from '../../../../src/lib/json/exact-json.js';
import { errorInfo } from '../../../../src/shared/grpc/status.js';
import { CONSTRAINED_APIS, CutAnswer } from '../../../support/constrained-apis.js';
import { exactObjectSchemas } from '../../../support/exact-schemas.js';
import { equalJson, violation } from '../../../support/exact-validator.js';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { isFull, runs, seed } from '../../../support/run-size.js';

const TEMPLATE =
  '{% if tools %}<tool_call>{% endif %}{% for m in messages %}{{ m.role }} {{ m.content }}\n{% endfor %}';

/** Clients at once: their answers share steps. */
const CLIENTS = 16;
/** Parts of the full tier's 10,000 schemas, each within a test's time limit. */
const PARTS = Array.from({ length: isFull ? 20 : 1 }, (_, part) => part);

let server: FakeGateway;
beforeAll(async () => {
  server = await startFakeGateway({
    ...{ model: { chatTemplate: TEMPLATE }, modelName: 'm', httpListen: '127.0.0.1:0', stepMs: 0, maxContext: 4096 },
  });
});
afterAll(() => server.stop());

/** True if a schema was refused: it contradicts itself, or is more than a grammar says. */
function isRefusal(error: unknown): boolean {
  const { message, metadata } = error as Partial<ServiceError>;
  const reason = metadata === undefined ? message : errorInfo({ metadata })?.reason;
  return /CONSTRAINT_(INVALID|UNSUPPORTED)/.test(reason ?? '');
}

const TITLE =
  'each generated answer satisfies its schema exactly, by every API, and is the same unary and streamed (part %i)';

it.each(PARTS)(TITLE, async (part) => {
  const apis = Object.entries(CONSTRAINED_APIS);
  const schemas = fc.sample(exactObjectSchemas, { numRuns: isFull ? 500 : runs(200), seed: seed(51 + 100 * part) });
  const completed = new Map<string, number>();
  let held = 0;
  let cut = 0;
  let next = 0;
  const client = async () => {
    for (let i = next++; i < schemas.length; i = next++) {
      const schema = schemas[i]!;
      const [api, answersOf] = apis[i % apis.length]!;
      const answers = await answersOf(server, schema, `q${i}`).catch((error: unknown) => {
        if (error instanceof CutAnswer) cut += 1;
        else if (!isRefusal(error)) throw error;
        return undefined;
      });
      if (answers === undefined) continue;
      held += 1;
      const [first = '', ...others] = answers;
      const value = parseJson(first);
      expect(violation(parseJson(schema), value), `${api}: ${schema} has the answer ${first}`).toBeUndefined();
      for (const other of others) expect(equalJson(parseJson(other), value), `${api}: ${first}, ${other}`).toBe(true);
      completed.set(api, (completed.get(api) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  console.log(`${held} of ${schemas.length} schemas, ${JSON.stringify(Object.fromEntries(completed))}`);
  expect(cut).toBeLessThan(0.02 * schemas.length);
  // The others contradict themselves, or are beyond a limit.
  expect(held).toBeGreaterThan(0.7 * schemas.length);
  expect(completed.size).toBe(apis.length);
});
