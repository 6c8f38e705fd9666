import type { ModelStatus } from '../../shared/generated/rocmforge/admin/v1/admin.js';
import type { OptionValues } from '../../shared/option-table.js';
import { writeJson, writeNotice, writeText } from '../common/output.js';
import { alignColumns } from '../inspect/inspect.js';
import { AdminClient } from './admin-client.js';
import type { ADMIN_OPTIONS } from './operate-commands.js';

export type AdminOptions = OptionValues<typeof ADMIN_OPTIONS>;

/** `rocmforge admin`: loads and unloads models, or changes the settings that are given; prints all settings, or with `models` the models. */
export async function admin(options: AdminOptions): Promise<void> {
  const { address, json, replaceExecutors, models, loadModel = [], unloadModel = [], ...given } = options;
  const client = new AdminClient(address);
  try {
    for (const name of unloadModel) {
      await client.unloadModel(name);
      writeNotice(`unloaded ${name}\n`);
    }
    for (const name of loadModel) {
      await client.loadModel(name);
      writeNotice(`loaded ${name}\n`);
    }
    if (replaceExecutors) writeNotice(`replaced; executors started so far: ${await client.replaceExecutors()}\n`);
    const isChange = Object.values(given).some((value) => value !== undefined);
    const hasLoaded = unloadModel.length + loadModel.length > 0;
    // Their lines are the answer.
    if (hasLoaded && !isChange && !models && !json) return;
    const settings = isChange ? await client.update(given) : await client.settings();
    if (models) {
      showModels(await client.models(), json);
      return;
    }
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

function showModels(models: readonly ModelStatus[], json: boolean): void {
  if (json) {
    writeJson(models, 2);
    return;
  }
  const head = ['model', 'state', 'requests', 'active', 'executors', 'problem'];
  const rows = models.map(({ name, state, admits, active, executors, problem }) => [
    ...[name, state, admits ? 'admitted' : 'refused', String(active), String(executors), problem],
  ]);
  writeText(`${alignColumns([head, ...rows]).join('\n')}\n`);
}
