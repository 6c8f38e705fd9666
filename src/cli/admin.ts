import type { Settings } from '../shared/generated/rocmforge/admin/v1/admin.js';
import { AdminClient } from './admin-client.js';
import { alignColumns } from './inspect.js';
import { writeJson, writeNotice, writeText } from './output.js';

export interface AdminOptions extends Settings {
  /** Of a gateway's `--admin-listen`. */
  readonly address: string;
  readonly json: boolean;
  /** Before settings are told. */
  readonly replaceExecutors: boolean;
}

/** `rocmforge admin`: changes the settings that are given, and tells all of them. */
export async function admin({ address, json, replaceExecutors, ...given }: AdminOptions): Promise<void> {
  const client = new AdminClient(address);
  try {
    if (replaceExecutors) writeNotice(`replaced; executors started so far: ${await client.replaceExecutors()}\n`);
    const isChange = Object.values(given).some((value) => value !== undefined);
    const settings = isChange ? await client.update(given) : await client.settings();
    const rows = Object.entries(settings).map(([name, value]): [string, string] => [
      name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
      String(value),
    ]);
    if (json) writeJson(settings, 2);
    else writeText(`${alignColumns(rows).join('\n')}\n`);
  } finally {
    client.close();
  }
}
