import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Constraint } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { type FakeGateway, startFakeGateway } from '../support/fake-gateway.js';
import { type Generated, generate, request } from '../support/gateway.js';

const GRAMMAR =
  'root ::= (word | number | list) (" " (word | number | list))*\nword ::= [a-z]{1,9}\nnumber ::= [0-9]{1,7}\nlist ::= "[" word ("," word){0,4} "]"\n';
const constraint: Constraint = { kind: { $case: 'grammar', value: GRAMMAR } };
const PROMPTS = Array.from({ length: 8 }, (_, i) => [260 + i, 261, 262, 263]);
const message = (i: number, isConstrained: boolean, maxTokens = 150) =>
  request({ tokens: PROMPTS[i]!, stop: { maxTokens }, ...(isConstrained && { constraint }) });

let server: FakeGateway;
beforeAll(async () => {
  server = await startFakeGateway({ stepMs: 2, maxSequences: 16 });
});
afterAll(() => server.stop());

it('constrained streams are the same alone, together and beside free ones, whatever masks come late', async () => {
  const alone: Generated[] = [];
  for (const i of PROMPTS.keys()) alone[i] = await generate(server.client, message(i, true));
  for (const { text } of alone) expect(text).toMatch(/^(([a-z]{1,9}|\d{1,7}|\[[a-z]{1,9}(,[a-z]{1,9}){0,4}\])( |$))+/);
  const both = await Promise.all(
    [...PROMPTS.keys()].map((i) =>
      Promise.all([generate(server.client, message(i, true)), generate(server.client, message(i, false))]),
    ),
  );
  for (const [i, [constrained]] of both.entries()) expect(constrained.tokenIds).toEqual(alone[i]?.tokenIds);
  expect(server.executor.failure).toBeUndefined();
});

// A step of 300 ms is long beside a mask on a busy machine, too.
it.each([
  [300, 'with', 12, 3],
  [2, 'before', 150, 8],
])(
  'steps of %i ms: the next is sent %s the masks that the one under way waits for',
  async (stepMs, when, tokens, prompts) => {
    const slow = await startFakeGateway({ stepMs, maxSequences: 4, lateMs: stepMs });
    try {
      const heard: string[] = [];
      slow.executor.heard = ({ stepId, slotMasks, slices }) => {
        const hasStep = slices.length > 0;
        if (slotMasks.length > 0) heard.push(`masks ${hasStep ? stepId - 1n : stepId}`);
        if (hasStep) heard.push(`step ${stepId}`);
      };
      for (let i = 0; i < prompts; i++) await generate(slow.client, message(i, true, tokens));
      const places = heard.flatMap((frame, at) => {
        const [, step] = /^masks (\d+)/.exec(frame) ?? [];
        const next = heard.indexOf(`step ${Number(step) + 1}`);
        return step === undefined || next < 0 ? [] : [next > at];
      });
      expect(places.length).toBeGreaterThan(20);
      const after = places.filter((isAfter) => isAfter).length / places.length;
      // Some masks are late, or early, on a busy machine.
      if (when === 'with') expect(after).toBeGreaterThan(0.5);
      else expect(after).toBeLessThan(0.5);
    } finally {
      await slow.stop();
    }
  },
);
