/**
 * Gives this process the variables that it had. Another object in the place of `process.env` would not do: Node's own code, such
 * as `os.tmpdir()`, reads the process's variables and would no longer see what is set.
 */
export function restoreEnvironment(before: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
  Object.assign(process.env, before);
}
