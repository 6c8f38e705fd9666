import { readdirSync } from 'node:fs';

/** From the smallest to the largest; each tier also runs all tests of the tiers before it. */
export const TIER_NAMES = /** @type {const} */ (['unit', 'quick', 'default', 'full']);
/** @typedef {(typeof TIER_NAMES)[number]} Tier */

/**
 * The tier of every test file: `*` matches within a folder, `**` across folders, and a pattern that starts with `!` takes
 * files out of the patterns before it. `npm run check` fails for a file in no tier or in two.
 *
 * - unit: TypeScript alone, no processes, no native addon
 * - quick: what most changes can break, on host kernels; before each commit
 * - default: every behavior once; `npm test`
 * - full: every family, type, variant and seed, and tests that measure time; `npm run test:full`
 *
 * A file that belongs to a smaller tier may prove more in a larger one: see test/support/run-size.ts.
 *
 * @type {Readonly<Record<Tier, readonly string[]>>}
 */
export const TIERS = {
  unit: [
    'test/cli/{inspect-rope,listen-addresses,model-options,npm-parent,option-table,origins,plot,served-models,system-limits,turn-printer,verify-speed}.test.ts',
    'test/client/errors.test.ts',
    'test/executor/{attention-splits,block-budget,executor-server,gpu-order,graph-buckets,step-graphs,known-files,lease,processors,slots,tensor-reader}.test.ts',
    'test/gateway/chat/**',
    '!test/gateway/chat/{published-templates,published-turns}.test.ts',
    'test/gateway/constraints/**',
    '!test/gateway/constraints/vocabulary-masks.test.ts',
    'test/gateway/{device-metrics,drain,metric-table,metrics-server,idle-unloader,router,redacted-options}.test.ts',
    'test/gateway/api/{peer,request-opener,running-requests,flush-scheduler}.test.ts',
    'test/gateway/api/grpc/{caller,chunk-encoding,connection-guard,far-deadlines,header-watch,abuse-tracker,message-frames,small-frames,stream-turns}.test.ts',
    'test/gateway/api/http/{client-bodies,constraint-fields,event-stream,generated-bodies,kept-streams,lenient-fields,response-store,unread-responses}.test.ts',
    'test/gateway/api/protocols/answer-limits.test.ts',
    'test/gateway/matching/{doubling-rules,grammar-cache,grammar-warm-up,mask-fairness,mask-queue,mask-time,mask-turns,matchers,resting-grammar}.test.ts',
    'test/gateway/replica/{client-error,engine,load-queue,queue-limits}.test.ts',
    'test/gateway/replica/link/{answer,loss,step-encoding,supervision}.test.ts',
    'test/gateway/replica/scheduler/**',
    'test/gateway/request/**',
    '!test/gateway/request/numbers.test.ts',
    'test/gateway/threads/**',
    'test/gateway/trust/**',
    'test/kernels/{kernel-counts,kernel-limits,mutations}.test.ts',
    'test/lib/**',
    '!test/lib/jinja/jinja-constructs.test.ts',
    '!test/lib/gguf/{inspect,model-files,reader-oracle}.test.ts',
    'test/page/**',
    'test/shared/**',
    '!test/shared/{fault-log,log-sink}.test.ts',
    '!test/shared/grpc/known-fields.test.ts',
    'test/tools/{check-docs,check-json,check-lengths,check-words,predict-h200}.test.ts',
  ],
  quick: [
    'test/executor/{batch-invariance,demo-oracle,encoders,expert-placement,families,families-invariance,failed-loads,fusions,granted-sequences}.test.ts',
    'test/executor/{kept-memory,kv-cache-q8,large-steps,launch-plan,masked-steps,pooled-prompts,prediction}.test.ts',
    'test/executor/{idle-work,recurrent-states,refused-models,rehearsal,rerankers,shared-norms}.test.ts',
    'test/executor/{block-copies,bytes-read,cuda-queues,unused-tensors,weight-chunks}.test.ts',
    'test/e2e/{demo,generation}.test.ts',
    'test/faults/kills.test.ts',
    'test/gateway/{echo,event-loop-delay,fake-executor,token-histogram,tracing}.test.ts',
    'test/kernels/*.test.ts',
    '!test/kernels/{build,kernel-counts,kernel-limits,lanes,mutations}.test.ts',
    '!test/kernels/{argmax,attention_split,causal_mask,flash_attention_causal,flash_attention_nocausal,gate_up_swiglu,gate_up_swiglu_packed,gemm}.test.ts',
    '!test/kernels/{probability_filters,rms_norm_residual,small_gemm,top_k}.test.ts',
    'test/shared/{fault-log,log-sink}.test.ts',
    'test/lib/gguf/{inspect,model-files,reader-oracle}.test.ts',
    'test/shared/grpc/known-fields.test.ts',
    'test/tools/{check-imports,predict}.test.ts',
  ],
  default: [
    'test/cli/**',
    '!test/cli/{inspect-rope,listen-addresses,model-options,npm-parent,option-table,origins,plot,served-models,system-limits,turn-printer,verify-speed}.test.ts',
    'test/client/**',
    '!test/client/errors.test.ts',
    'test/device/**',
    '!test/device/{hip-parity,hip-snapshots,hip-tensor-split,hip-tensor-split-faults}.test.ts',
    'test/e2e/**',
    '!test/e2e/{demo,generation,kernels-run}.test.ts',
    'test/executor/{code-object-targets,decode-launches,expert-launches,families-quantized}.test.ts',
    'test/executor/{launched-kernels,layer-split,memory,single-token,parity,qwen3,rope-forms}.test.ts',
    'test/executor/{tensor-split,tensor-split-families,unfused-attention,unquantized,window-eviction}.test.ts',
    'test/faults/*.test.ts',
    '!test/faults/kills.test.ts',
    'test/gateway/{admission,constrained-streams,first-masks,metrics,structured-reasoning,tool-calls}.test.ts',
    'test/gateway/chat/{published-templates,published-turns}.test.ts',
    'test/gateway/api/{rejected-requests,slow-readers}.test.ts',
    'test/gateway/api/grpc/{call-guard,connection-age,liveness,load-report,reflection,tls,trust}.test.ts',
    'test/gateway/api/http/*.test.ts',
    '!test/gateway/api/http/{client-bodies,constraint-fields,event-stream,generated-bodies,kept-streams,lenient-fields,response-store,unread-responses}.test.ts',
    'test/gateway/api/protocols/*.test.ts',
    '!test/gateway/api/protocols/answer-limits.test.ts',
    'test/gateway/matching/hostile-clients.test.ts',
    'test/gateway/replica/{masking,prefix-routing,unloaded-models-replica,two-replicas,unusable-executors}.test.ts',
    'test/gateway/replica/link/{connection-problem,private-folder}.test.ts',
    'test/gateway/request/numbers.test.ts',
    'test/kernels/{build,lanes}.test.ts',
    'test/lib/jinja/jinja-constructs.test.ts',
    'test/tools/{bench-help,census,check-breaking,family-guide,monitoring,mutations}.test.ts',
  ],
  full: [
    'test/device/{hip-parity,hip-snapshots,hip-tensor-split,hip-tensor-split-faults}.test.ts',
    'test/emulator/*.emulated.ts',
    'test/e2e/kernels-run.test.ts',
    'test/executor/{dequantized-twin,encoders-planted,families-planted,parity-mutations,router-ties}.test.ts',
    'test/faults/*.clock.ts',
    'test/gateway/api/http/page-speed.clock.ts',
    'test/gateway/constraints/vocabulary-masks.test.ts',
    // Tests of reference kernels, which no plan launches
    'test/kernels/{argmax,attention_split,causal_mask,flash_attention_causal,flash_attention_nocausal,gate_up_swiglu,gate_up_swiglu_packed,gemm}.test.ts',
    'test/kernels/{probability_filters,rms_norm_residual,small_gemm,top_k}.test.ts',
  ],
};

/** Ending of a test file's name. `*.clock.ts` judge by wall clock, `*.emulated.ts` run AMD code objects. */
export const IS_TEST = /\.(test|clock|emulated)\.ts$/;

/**
 * All test files, in order.
 *
 * @param {string} root the package's folder
 */
export function testFiles(root) {
  return readdirSync(`${root}/test`, { recursive: true, encoding: 'utf8' })
    .filter((name) => IS_TEST.test(name))
    .map((name) => `test/${name}`)
    .sort();
}

/** @param {string} pattern */
function toExpression(pattern) {
  const text = pattern
    .replace(/[.]/g, '\\.')
    .replace(/\{([^}]*)\}/g, (_, names) => `(${names.replaceAll(',', '|')})`)
    .replace(/\*\*/g, '§')
    .replace(/\*/g, '[^/]*')
    .replace(/§/g, '.*');
  return new RegExp(`^${text}$`);
}

/** @param {Tier} tier */
const compile = (tier) =>
  TIERS[tier].map((pattern) => ({
    takes: !pattern.startsWith('!'),
    expression: toExpression(pattern.replace(/^!/, '')),
  }));
const matchers = {
  unit: compile('unit'),
  quick: compile('quick'),
  default: compile('default'),
  full: compile('full'),
};

/**
 * All tiers whose patterns match a file; a correct table gives one.
 *
 * @param {string} file path from the package's root
 */
export function tiersOf(file) {
  return TIER_NAMES.filter((tier) => {
    let isIn = false;
    for (const { takes, expression } of matchers[tier]) if (expression.test(file)) isIn = takes;
    return isIn;
  });
}

/**
 * The tier of a test file.
 *
 * @param {string} file path from the package's root
 * @returns {Tier}
 * @throws {Error} unless it has exactly one
 */
export function tierOf(file) {
  const [tier, ...more] = tiersOf(file);
  if (tier === undefined) throw new Error(`${file} belongs to no tier; name it in test/tiers.mjs`);
  if (more.length > 0) throw new Error(`${file} belongs to ${[tier, ...more].join(' and ')}; one tier is allowed`);
  return tier;
}

/**
 * The files that a tier runs: its own and those of the smaller tiers.
 *
 * @param {Tier} tier
 * @param {string} root the package's folder
 */
export function filesOf(tier, root) {
  const last = TIER_NAMES.indexOf(tier);
  return testFiles(root).filter((file) => TIER_NAMES.indexOf(tierOf(file)) <= last);
}
