import { type ChildProcess, spawn } from 'node:child_process';
import path from 'node:path';
import { packageRoot } from '../../src/shared/package.js';

/** End and output of a program. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end. */
export function runProgram(
  program: string,
  args: readonly string[],
  input = '',
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd: packageRoot,
      env: { ...process.env, ROCMFORGE_LOG_LEVEL: 'warn', ...env },
    });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (data) => {
      stdout += data;
    });
    child.stderr.on('data', (data) => {
      stderr += data;
    });
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, stdout, stderr }));
    // A program may end without reading it.
    child.stdin.on('error', () => undefined).end(input);
  });
}

/** Runs the built `rocmforge` to its end. */
export function rocmforge(...args: string[]): Promise<Ended> {
  return runProgram(process.execPath, [path.join(packageRoot, 'dist', 'cli', 'main.js'), ...args]);
}

/** Runs a line of the shell, in which the word `rocmforge` is the built program. */
export function shellRocmforge(line: string): Promise<Ended> {
  const program = `"${process.execPath}" "${path.join(packageRoot, 'dist', 'cli', 'main.js')}" `;
  return runProgram('bash', ['-c', line.replace(/\brocmforge /, program)]);
}

/** Starts the built `rocmforge` and resolves when it has written a line to stdout or stderr that matches. */
export function startRocmforge(ready: RegExp, ...args: string[]): Promise<{ child: ChildProcess; line: string }> {
  return startRocmforgeBy([], ready, ...args);
}

/** The same by a command that runs the one that follows it, and becomes it. */
export function startRocmforgeBy(
  by: readonly string[],
  ready: RegExp,
  ...args: string[]
): Promise<{ child: ChildProcess; line: string }> {
  // Tests wait for its log lines, whatever level the tests themselves run at.
  const env = { ...process.env, ROCMFORGE_LOG_LEVEL: 'info' };
  const command = [...by, process.execPath, path.join(packageRoot, 'dist', 'cli', 'main.js'), ...args];
  const child = spawn(command[0] as string, command.slice(1), { env });
  return new Promise((resolve, reject) => {
    let output = '';
    const look = (data: Buffer): void => {
      output += data;
      const line = output.split('\n').find((candidate) => ready.test(candidate));
      if (line !== undefined) resolve({ child, line });
    };
    child.stdout.on('data', look);
    child.stderr.on('data', look);
    child.on('close', (code) => reject(new Error(`rocmforge ended with ${code}: ${output}`)));
  });
}

/** Ends a process and waits until it has ended. */
export function endProcess(child: ChildProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
  if (child.exitCode !== null) return Promise.resolve(child.exitCode);
  return new Promise((resolve) => {
    child.once('close', (code) => resolve(code));
    child.kill(signal);
  });
}
