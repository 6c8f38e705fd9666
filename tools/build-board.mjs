// Writes deploy/monitoring/grafana.json from the panels below.
//
//   node tools/build-board.mjs [--check]     --check fails when the file is not what would be written
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const file = path.join(
  path.dirname(path.dirname(fileURLToPath(import.meta.url))),
  'deploy',
  'monitoring',
  'grafana.json',
);
/** Selector of the chosen gateways. */
const OF = 'instance=~"$instance"';
const RATE = '[$__rate_interval]';
const rate = (name, by) => `sum${by ? ` by (${by})` : ''} (rate(rocmforge_${name}{${OF}}${RATE}))`;
const increase = (name, by) => `sum${by ? ` by (${by})` : ''} (increase(rocmforge_${name}{${OF}}${RATE}))`;
const quantiles = (name) =>
  [0.5, 0.95, 0.99].map((q) => [
    `histogram_quantile(${q}, sum by (le) (rate(rocmforge_${name}_bucket{${OF}}${RATE})))`,
    `p${q * 100}`,
  ]);

/**
 * Rows of panels: title, unit, and expressions with their legends; `device`: only where a driver tells.
 *
 * @type {[title: string, panels: [name: string, unit: string, targets: string[][]][]][]}
 */
const ROWS = [
  [
    'Service',
    [
      ['Executors that serve', 'short', [[`rocmforge_executor_up{${OF}}`, '{{instance}}']]],
      ['Requests that ended, by how', 'reqps', [[rate('request_total', 'outcome'), '{{outcome}}']]],
      [
        'Tokens by model',
        'short',
        [
          [rate('generation_tokens_total', 'model_name'), '{{model_name}}: generated'],
          [rate('prompt_tokens_total', 'model_name'), '{{model_name}}: of prompts'],
        ],
      ],
      ['Time to first token', 's', quantiles('time_to_first_token_seconds')],
      ['Between tokens', 's', quantiles('inter_token_latency_seconds')],
      ['Whole requests', 's', quantiles('e2e_request_latency_seconds')],
    ],
  ],
  [
    'Load',
    [
      [
        'Sequences',
        'short',
        [
          [`sum(rocmforge_num_requests_running{${OF}})`, 'with a slot'],
          [`sum(rocmforge_num_requests_waiting{${OF}})`, 'waiting'],
        ],
      ],
      ['Time in the queue', 's', quantiles('request_queue_time_seconds')],
      ['KV cache in use', 'percentunit', [[`rocmforge_kv_cache_usage_perc{${OF}}`, '{{instance}}']]],
      [
        'Prompt tokens found in the prefix cache',
        'percentunit',
        [[`${rate('prefix_cache_hit_tokens_total')} / ${rate('prompt_tokens_total')}`, 'share']],
      ],
      [
        'Given up to others',
        'short',
        [
          [rate('num_preemptions_total'), 'blocks'],
          [rate('slot_preemptions_total'), 'slots'],
        ],
      ],
      [
        'Rejected, a second',
        'short',
        [
          [rate('calls_refused_total'), 'calls, as too many or too large'],
          [rate('connections_refused_total'), 'connections'],
          [rate('slow_readers_total'), 'answers that nobody read'],
        ],
      ],
    ],
  ],
  [
    'Faults',
    [
      ['Executors that ended, by why', 'short', [[increase('executor_restarts_total', 'reason'), '{{reason}}']]],
      ['Sequences computed again', 'short', [[increase('requests_replayed_total'), 'sequences']]],
      [
        'Recovery: from an executor’s loss until streams continue',
        's',
        [
          [
            `sum(increase(rocmforge_executor_recovery_seconds_sum{${OF}}${RATE})) / sum(increase(rocmforge_executor_recovery_seconds_count{${OF}}${RATE}))`,
            'mean',
          ],
        ],
      ],
      ['Age of the step under way', 's', [[`rocmforge_executor_last_step_age_seconds{${OF}}`, '{{instance}}']]],
      [
        'Requests that were ended for what they did',
        'short',
        [
          [increase('requests_quarantined_total'), 'faulted alone'],
          [increase('requests_non_finite_total'), 'no finite logits'],
        ],
      ],
      [
        'What could not be written down',
        'short',
        [
          [increase('log_lines_dropped_total'), 'lines of the log'],
          [increase('faults_not_kept_total'), 'faults'],
        ],
      ],
    ],
  ],
  [
    'Device',
    [
      [
        'Memory',
        'bytes',
        [
          [`rocmforge_device_memory_used_bytes{${OF}}`, '{{device}}: taken'],
          [`rocmforge_device_memory_total_bytes{${OF}}`, '{{device}}: in all'],
        ],
      ],
      ['Temperature', 'celsius', [[`rocmforge_device_temperature_celsius{${OF}}`, '{{device}}']]],
      ['Power', 'watt', [[`rocmforge_device_power_watts{${OF}}`, '{{device}}']]],
      ['Clock', 'hertz', [[`rocmforge_device_clock_hertz{${OF}}`, '{{device}}']]],
      ['Throttled, where the driver tells', 'short', [[`rocmforge_device_throttled{${OF}}`, '{{device}}']]],
    ],
  ],
  [
    'Gateway process',
    [
      ['Processor', 'percentunit', [[`rate(process_cpu_seconds_total{${OF}}${RATE})`, '{{instance}}']]],
      ['Memory', 'bytes', [[`process_resident_memory_bytes{${OF}}`, '{{instance}}']]],
      ['Event loop, slowest hundredth', 's', [[`nodejs_eventloop_lag_p99_seconds{${OF}}`, '{{instance}}']]],
      ['Release', 'short', [[`rocmforge_build_info{${OF}}`, '{{version}} on Node.js {{node_version}}']]],
    ],
  ],
];

const WIDTH = 8;
const HEIGHT = 7;
/** As Grafana's variable; `$datasource` alone is no uid to it. */
const source = { type: 'prometheus', uid: '$' + '{datasource}' };

function board() {
  const panels = [];
  let y = 0;
  for (const [title, row] of ROWS) {
    panels.push({ type: 'row', title, collapsed: false, gridPos: { x: 0, y, w: 24, h: 1 }, panels: [] });
    y += 1;
    for (const [index, [name, unit, targets]] of row.entries()) {
      panels.push({
        type: 'timeseries',
        title: name,
        datasource: source,
        fieldConfig: { defaults: { unit, min: 0, custom: { fillOpacity: 10, showPoints: 'never' } }, overrides: [] },
        options: { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi' } },
        gridPos: { x: (index % 3) * WIDTH, y: y + Math.floor(index / 3) * HEIGHT, w: WIDTH, h: HEIGHT },
        targets: targets.map(([expr, legendFormat], i) => ({
          datasource: source,
          refId: String.fromCharCode(65 + i),
          expr,
          legendFormat,
        })),
      });
    }
    y += Math.ceil(row.length / 3) * HEIGHT;
  }
  return {
    title: 'ROCmForge',
    uid: 'rocmforge',
    tags: ['rocmforge', 'llm'],
    schemaVersion: 38,
    editable: true,
    refresh: '10s',
    time: { from: 'now-1h', to: 'now' },
    // A restart under load is to be seen at a glance, whatever panel is looked at.
    annotations: {
      list: [
        {
          name: 'Executor ended',
          enable: true,
          iconColor: 'red',
          datasource: source,
          expr: `sum by (reason) (increase(rocmforge_executor_restarts_total{${OF}}[1m])) > 0`,
          titleFormat: 'executor ended: {{reason}}',
        },
      ],
    },
    templating: {
      list: [
        { name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Data source' },
        {
          name: 'instance',
          type: 'query',
          label: 'Gateway',
          datasource: source,
          query: { query: 'label_values(rocmforge_executor_up, instance)', refId: 'instance' },
          refresh: 2,
          multi: true,
          includeAll: true,
          allValue: '.*',
          current: { text: 'All', value: '$__all' },
        },
      ],
    },
    panels: panels.map((panel, i) => ({ id: i + 1, ...panel })),
  };
}

const text = `${JSON.stringify(board(), null, 2)}\n`;
if (process.argv.includes('--check')) {
  if (readFileSync(file, 'utf8') !== text) {
    console.error(`${path.basename(file)} is not what its panels say; run "node tools/build-board.mjs"`);
    process.exit(1);
  }
} else {
  writeFileSync(file, text);
}
