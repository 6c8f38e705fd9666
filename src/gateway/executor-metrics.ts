import { Gauge, type Registry } from 'prom-client';
import type { ReplicaLabels } from './device-metrics.js';
import type { Replica } from './replica/replica.js';

/**
 * Registers which replicas have no usable executor, and why.
 *
 * @param replicas all of a gateway
 * @param labels of each of them
 */
export function watchExecutors(
  registry: Registry,
  replicas: readonly Pick<Replica, 'problem'>[],
  labels: readonly ReplicaLabels[],
): void {
  new Gauge({
    name: 'rocmforge_executor_unusable',
    help: '1 while no executor of the replica can be used, by why; absent while one serves',
    labelNames: [...Object.keys(labels[0] ?? {}), 'reason'],
    registers: [registry],
    collect() {
      this.reset();
      for (const [i, { problem }] of replicas.entries()) {
        if (problem !== undefined) this.set({ ...labels[i], reason: problem.reason }, 1);
      }
    },
  });
}
