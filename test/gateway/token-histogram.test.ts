import { fc, test } from '@fast-check/vitest';
import { Histogram, Registry } from 'prom-client';
import { expect } from 'vitest';
import { TokenHistogram } from '../../src/gateway/token-histogram.js';

const options = { name: 'between_tokens_seconds', help: 'Between tokens', buckets: [0.001, 0.02, 0.5, 2] };
const value = fc.oneof(fc.double({ min: 0, max: 3, noNaN: true }), fc.constantFrom(...options.buckets));

test.prop([fc.array(fc.tuple(fc.constantFrom('a', 'b "c"'), value))])(
  'a histogram of tokens is read as prom-client’s',
  async (observed) => {
    const [expected, actual] = [new Registry(), new Registry()];
    const histogram = new Histogram({ ...options, labelNames: ['model_name'], registers: [expected] });
    const tokens = new TokenHistogram({ ...options, registers: [actual] });
    const series = new Map<string, (value: number) => void>();
    for (const model_name of ['a', 'b "c"']) {
      histogram.zero({ model_name });
      series.set(model_name, tokens.labels({ model_name }));
    }
    for (const [model_name, seconds] of observed) {
      histogram.observe({ model_name }, seconds);
      series.get(model_name)?.(seconds);
    }
    expect(await actual.metrics()).toBe(await expected.metrics());
  },
);
