import { signal } from '@preact/signals';
import { SettingsError } from './chat-body.js';
import { ServerError } from './server-error.js';

/** Why the server refuses the token, or that it requires one; empty: it does not. */
export const credentialProblem = signal('');

/** Error about a setting, shown where it is edited. */
export const settingProblem = signal<{ readonly setting: string; readonly message: string } | undefined>(undefined);

const UNAUTHORIZED = 401;

/** Setting that a field of a request comes from. */
const SETTINGS: readonly (readonly [field: RegExp, setting: string])[] = [
  [/^(response_format|grammar|json_schema|constraint)/, 'constraint'],
  [/^tools/, 'tools'],
  [/^(temperature|top_|min_p|repetition|presence|frequency|max_|seed|stop)/, 'sampling'],
];

/** Shows an error of a request where its reader can do something about it. */
export function reportFailure(error: unknown): void {
  if (error instanceof SettingsError) settingProblem.value = error;
  if (!(error instanceof ServerError)) return;
  if (error.status === UNAUTHORIZED) credentialProblem.value = error.message;
  const setting = SETTINGS.find(([field]) => field.test(error.param))?.[1];
  if (setting !== undefined) settingProblem.value = { setting, message: error.message };
}
