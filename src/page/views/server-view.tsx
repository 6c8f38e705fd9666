import { durationText } from '../markdown/marked-text.js';
import type { Sample } from '../server/rates.js';
import { history, type ModelState, server } from '../server/server-store.js';
import { Plot } from './plot.js';

/** Models, executors and the load of the last minutes. */
export function ServerView() {
  const state = server.value;
  if (state === undefined) return null;
  const { samples, recoveries } = history.value;
  const last = samples.at(-1);
  return (
    <div class="server">
      <div class="plots">
        <Series title="Tokens per second" samples={samples} read={(sample) => sample.tokensPerSecond} digits={1} />
        <Series title="Running requests" samples={samples} read={(sample) => sample.running} digits={0} />
        <Series title="Waiting requests" samples={samples} read={(sample) => sample.waiting} digits={0} />
        <Series
          title="KV cache in use (%)"
          samples={samples}
          read={(sample) => 100 * sample.kvUsage}
          digits={0}
          most={100}
        />
      </div>
      {state.models.map((model) => (
        <ModelSection key={model.name} model={model} />
      ))}
      <section>
        <h2>Recoveries</h2>
        <p>
          {last === undefined || last.recoveries === 0
            ? 'No executor was lost.'
            : `${last.recoveries} since the start, ${durationText((1000 * last.recoverySeconds) / last.recoveries)} on average.`}
        </p>
        {recoveries.length > 0 && (
          <ul>
            {recoveries.map(({ at, seconds }) => (
              <li key={at}>
                {new Date(at).toLocaleTimeString()}: {durationText(1000 * seconds)}
              </li>
            ))}
          </ul>
        )}
      </section>
      <p class="note">The server has run for {Math.floor(state.uptime_seconds / 60)} min.</p>
    </div>
  );
}

interface SeriesProps {
  readonly title: string;
  readonly samples: readonly Sample[];
  readonly read: (sample: Sample) => number;
  readonly digits: number;
  readonly most?: number;
}

function Series({ title, samples, read, digits, most }: SeriesProps) {
  const values = samples.map(read);
  return <Plot title={title} values={values} latest={(values.at(-1) ?? 0).toFixed(digits)} most={most} />;
}

function ModelSection({ model: { name, state, replicas } }: { readonly model: ModelState }) {
  return (
    <section>
      <h2>
        <bdi>{name}</bdi> <span class={`state ${state}`}>{state}</span>
      </h2>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <section class="scroll" tabIndex={0} aria-label={`Executors of ${name}`}>
        <table>
          <thead>
            <tr>
              {['Replica', 'State', 'Device', 'Running', 'Waiting', 'KV cache', 'Starts'].map((title) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {replicas.map((replica, i) => (
              <tr>
                <th scope="row">{i}</th>
                <td title={replica.problem}>{replica.state}</td>
                <td>{replica.device}</td>
                <td>
                  {replica.running} of {replica.slots}
                </td>
                <td>{replica.waiting}</td>
                <td>{(100 * replica.kv_usage).toFixed(0)} %</td>
                <td>{replica.executors}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </section>
  );
}
