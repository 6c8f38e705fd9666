import { writeOutputFile } from '../../lib/support/output-file.js';
import { type Fault, readFaults } from '../../shared/fault-log.js';
import { packageVersion } from '../../shared/package.js';
import { printableJson } from '../../shared/printable.js';
import { outputOf } from '../../shared/write-error.js';
import { writeNotice, writeText } from '../common/output.js';
import { examine } from '../doctor/doctor.js';
import { anonymous, thisIdentity } from '../doctor/report.js';
import { AdminClient } from './admin-client.js';

export interface ReportOptions {
  /** Address of a gateway's `--admin-listen`; absent: only this machine is reported. */
  readonly admin?: string;
  /** Folder in which gateways keep the last faults. */
  readonly stateDir: string;
  /** `-` is stdout. */
  readonly output: string;
}

const OWNER_ALONE = 0o600;

/**
 * `rocmforge report`: one JSON document for who is to find out what is wrong: versions, what of the installation works, a running
 * gateway's options, settings and metrics, and the last faults. No prompts, no texts, no tokens and no keys are in it, and of names
 * and folders of this machine none.
 *
 * @throws RocmForgeError `GATEWAY_UNAVAILABLE` where no gateway answers; as {@link writeError} for a file that cannot be written
 */
export async function report({ admin, stateDir, output }: ReportOptions): Promise<void> {
  const gateway = admin === undefined ? undefined : await gatewayReport(admin);
  const kept = readFaults(stateDir);
  const document = {
    format: 'rocmforge-report-1',
    at: new Date().toISOString(),
    version: packageVersion,
    node: process.version,
    installation: await examine(stateDir),
    faults: kept.faults.map(told),
    unreadableFaults: kept.unreadable,
    gateway,
  };
  const identity = thisIdentity();
  // Line by line, each a JSON text: what is replaced in one cannot break another.
  const text = printableJson(document, 2, (_, value) => (typeof value === 'string' ? cleaned(value) : value));
  function cleaned(value: string): string {
    return value
      .split('\n')
      .map((line) => anonymous(line, identity))
      .join('\n');
  }
  if (output === '-') {
    writeText(`${text}\n`);
    return;
  }
  outputOf(`--output ${output}`, () => writeOutputFile(output, `${text}\n`, { mode: OWNER_ALONE, flag: 'wx' }));
  writeNotice(`${output} is written; look it through before you send it\n`);
}

async function gatewayReport(address: string) {
  const client = new AdminClient(address);
  try {
    const { optionsJson, faultsJson, metrics, ...others } = await client.report();
    return {
      ...others,
      options: JSON.parse(optionsJson) as unknown,
      faults: (JSON.parse(faultsJson) as Fault[]).map(told),
      metrics: metrics.split('\n').filter((line) => line !== '' && !line.startsWith('#')),
    };
  } finally {
    client.close();
  }
}

/** A fault's own words may be anything that a library writes: a line's beginning says what it was. */
const MOST_LINE_CHARACTERS = 300;
const told = (fault: Fault): Fault => ({ ...fault, lastLine: fault.lastLine.slice(0, MOST_LINE_CHARACTERS) });
