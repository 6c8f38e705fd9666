import { Counter, Gauge, Registry } from 'prom-client';
import { RocmForgeError } from '../../../../shared/errors.js';
import type { ReplicaCounts } from '../../../replica/replica-counts.js';
import type { CompletionTotals } from '../../../request/completion-totals.js';
import type { HttpContext } from '../context.js';
import type { Exchange } from '../exchange.js';

/** Counters for which llama.cpp has names. */
export interface LlamaCounts {
  completions(): Readonly<CompletionTotals>;
  replicas(): ReplicaCounts;
}

type Read = (completions: Readonly<CompletionTotals>, replicas: ReplicaCounts) => number;

const rate = (count: number, us: number): number => (us === 0 ? 0 : (1e6 * count) / us);

/** Totals of all completions that have ended, and of all steps. */
const METRICS: readonly (readonly [kind: typeof Counter | typeof Gauge, name: string, help: string, read: Read])[] = [
  [Counter, 'prompt_tokens_total', 'Tokens of prompts that were computed', (all) => all.promptTokens],
  [Counter, 'prompt_tokens_cached_total', 'Prompt tokens found in the prefix cache', (all) => all.cachedTokens],
  [Counter, 'prompt_seconds_total', 'Time of prompts', (all) => all.prefillUs / 1e6],
  [Counter, 'tokens_predicted_total', 'Tokens generated', (all) => all.completionTokens],
  [Counter, 'tokens_predicted_seconds_total', 'Time of generation', (all) => all.decodeUs / 1e6],
  [Counter, 'n_tokens_max', 'Tokens of the longest sequence', (all) => all.mostTokens],
  [Counter, 'n_decode_total', 'Steps', (_, { steps }) => steps],
  [Counter, 'spec_decode_num_drafts_total', 'Steps with draft tokens', (_, { drafts }) => drafts],
  [Counter, 'spec_decode_num_draft_tokens_total', 'Draft tokens', (_, { draftTokens }) => draftTokens],
  [
    Counter,
    'spec_decode_num_accepted_tokens_total',
    'Draft tokens that were right',
    (_, { acceptedDraftTokens }) => acceptedDraftTokens,
  ],
  [Gauge, 'requests_processing', 'Sequences with a slot', (_, { running }) => running],
  [Gauge, 'requests_deferred', 'Sequences that wait for a slot', (_, { waiting }) => waiting],
  [
    Gauge,
    'n_busy_slots_per_decode',
    'Sequences of a step, on average',
    (_, { steps, slices }) => (steps === 0 ? 0 : slices / steps),
  ],
];

type Total = (completions: Readonly<CompletionTotals>) => number;

/** Rates of the completions that have ended since the last scrape, as llama.cpp has them. */
const RATES: readonly (readonly [name: string, help: string, tokens: Total, us: Total])[] = [
  [
    'prompt_tokens_seconds',
    'Tokens of prompts a second of their time, since the last scrape',
    (all) => all.promptTokens,
    (all) => all.prefillUs,
  ],
  [
    'predicted_tokens_seconds',
    'Tokens generated a second of their time, since the last scrape',
    (all) => all.completionTokens,
    (all) => all.decodeUs,
  ],
];

/** llama.cpp's metrics of what is counted, to be rendered for each who asks. */
export function llamaRegistry({ completions, replicas }: LlamaCounts): Registry {
  const registry = new Registry();
  for (const [Kind, name, help, read] of METRICS) {
    new Kind({
      name: `llamacpp:${name}`,
      help,
      registers: [registry],
      collect() {
        this.reset();
        this.inc(read(completions(), replicas()));
      },
    });
  }
  for (const [name, help, tokens, us] of RATES) {
    let before = { tokens: 0, us: 0 };
    new Gauge({
      name: `llamacpp:${name}`,
      help,
      registers: [registry],
      collect() {
        const all = completions();
        const now = { tokens: tokens(all), us: us(all) };
        this.set(rate(now.tokens - before.tokens, now.us - before.us));
        before = now;
      },
    });
  }
  return registry;
}

/**
 * llama.cpp's `GET /metrics`, by its names.
 *
 * @throws RocmForgeError `SWITCHED_OFF`
 */
export async function metrics(exchange: Exchange, { llamaMetrics, started }: HttpContext): Promise<void> {
  if (llamaMetrics === undefined) {
    throw new RocmForgeError('SWITCHED_OFF', '/metrics is disabled; start the gateway with --http-metrics', {
      field: 'path',
    });
  }
  exchange.response.setHeader('Process-Start-Time-Unix', started);
  exchange.text(await llamaMetrics.metrics(), llamaMetrics.contentType);
}
