import { trace } from '@opentelemetry/api';
import { RocmForgeError } from '../shared/errors.js';
import { packageVersion } from '../shared/package.js';

/** Packages that `--otlp-endpoint` needs in addition to this one, in tested versions. */
export const TRACING_PACKAGES = [
  '@opentelemetry/sdk-trace-base@2.12.0',
  '@opentelemetry/exporter-trace-otlp-http@0.223.0',
  '@opentelemetry/resources@2.12.0',
] as const;

/** Spans of requests. */
export interface SpanCounts {
  /** All that ended. */
  ended: number;
  /** Those that the collector took. */
  exported: number;
}

/** `ExportResultCode.SUCCESS` of OpenTelemetry. */
const SUCCESS = 0;

/**
 * Records the spans of requests and sends them to a collector by OTLP over HTTP. Without this they go to whatever SDK has
 * registered itself before, or nowhere.
 *
 * @param endpoint the collector's address, such as `http://127.0.0.1:4318`
 * @param counts kept up to date: what a collector that is slow or gone does not take is lost without a word otherwise
 * @returns sends what is left, and ends
 * @throws RocmForgeError `INVALID_OPTION` where the packages are not installed, or for what is no address
 */
export async function startTracing(endpoint: string, counts: SpanCounts): Promise<() => Promise<void>> {
  const url = collectorUrl(endpoint);
  const [{ BasicTracerProvider, BatchSpanProcessor }, { OTLPTraceExporter }, { resourceFromAttributes }] =
    await packages();
  const exporter = new OTLPTraceExporter({ url });
  const send = exporter.export.bind(exporter);
  exporter.export = (spans, done) =>
    send(spans, (result) => {
      if (result.code === SUCCESS) counts.exported += spans.length;
      done(result);
    });
  const counting = {
    onStart: () => undefined,
    onEnd: () => {
      counts.ended += 1;
    },
    forceFlush: async () => undefined,
    shutdown: async () => undefined,
  };
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({ 'service.name': 'rocmforge', 'service.version': packageVersion }),
    spanProcessors: [counting, new BatchSpanProcessor(exporter)],
  });
  trace.setGlobalTracerProvider(provider);
  return async () => {
    trace.disable();
    // A collector that is not there is no reason to end otherwise.
    await provider.shutdown().catch(() => undefined);
  };
}

function collectorUrl(endpoint: string): string {
  try {
    const url = new URL('v1/traces', endpoint.endsWith('/') ? endpoint : `${endpoint}/`);
    if (/^https?:$/.test(url.protocol)) return url.href;
  } catch {
    // Told below.
  }
  throw new RocmForgeError(
    'INVALID_OPTION',
    `--otlp-endpoint "${endpoint}" is not a valid address; use http://HOST:PORT`,
  );
}

async function packages() {
  try {
    return await Promise.all([
      import('@opentelemetry/sdk-trace-base'),
      import('@opentelemetry/exporter-trace-otlp-http'),
      import('@opentelemetry/resources'),
    ]);
  } catch (error) {
    const install = `npm install ${TRACING_PACKAGES.join(' ')}`;
    throw new RocmForgeError(
      'INVALID_OPTION',
      `--otlp-endpoint needs packages that are not here: ${install}`,
      {},
      {
        cause: error,
      },
    );
  }
}
