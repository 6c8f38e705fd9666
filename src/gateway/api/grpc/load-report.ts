import { Metadata, type StatusObject } from '@grpc/grpc-js';
import { OrcaLoadReport } from '../../../shared/generated/xds/data/orca/v3/orca_load_report.js';
import { toStatus } from '../../../shared/grpc/status.js';
import type { Load } from '../../replica/load.js';

/** The trailer that gRPC's and Envoy's load balancers read (gRFC A51). */
export const LOAD_REPORT_KEY = 'endpoint-load-metrics-bin';

/**
 * Tells the load with each generation's end, unasked: those who weigh servers by trailers (Envoy's
 * `client_side_weighted_round_robin`, gRPC's `weighted_round_robin`) ask for nothing. vLLM's request header
 * `endpoint-load-metrics-format` is of HTTP, where reports are text; endpoint pickers of Kubernetes read `/metrics`.
 */
export class LoadReport {
  constructor(private readonly load: () => Load) {}

  /** Metrics have the names that vLLM's reports give them. */
  trailers(): Metadata {
    const { kvUsage, waiting } = this.load();
    const namedMetrics = { kv_cache_usage_perc: kvUsage, num_requests_waiting: waiting };
    const trailers = new Metadata();
    trailers.set(LOAD_REPORT_KEY, Buffer.from(OrcaLoadReport.encode({ namedMetrics }).finish()));
    return trailers;
  }

  /** {@link toStatus}, with the load. */
  statusOf(error: unknown): Partial<StatusObject> {
    const status = toStatus(error);
    status.metadata?.merge(this.trailers());
    return status;
  }
}
