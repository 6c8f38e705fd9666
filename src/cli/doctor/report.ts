import os from 'node:os';
import { packageRoot } from '../../shared/package.js';
import type { Finding } from './finding.js';

const PATH = /(?<![\w.<])\/(?!dev\b|sys\b)[\w.@+~-]+(?:\/[\w.@+~-]+)*\/?/g;

/** Words that tell whose machine it is. */
export interface Identity {
  readonly userName: string;
  readonly hostName: string;
  readonly home: string;
}

/**
 * The findings as one block to paste into an issue: who and where the machine is stays out of it, and so does every path but
 * those of devices. What fixes a finding is left out: who reads it knows.
 */
export function formatReport(findings: readonly Finding[], whose: Identity): string {
  const lines = findings.map(({ check, state, detail }) => `${state.padEnd(7)} ${check}: ${detail}`);
  return ['```', ...lines.map((line) => anonymous(line, whose)), '```'].join('\n');
}

/** User and machine of the report. */
export function thisIdentity(): Identity {
  const { username, homedir } = os.userInfo();
  return { userName: username, hostName: os.hostname(), home: homedir };
}

/** A line without who and where this machine is, and without paths but those of devices. */
export function anonymous(line: string, { userName, hostName, home }: Identity): string {
  // Folders first: their names may have spaces, which the pattern would end at.
  let told = line;
  for (const folder of [packageRoot, home]) if (folder.length > 1) told = told.replaceAll(folder, '<folder>');
  told = told.replaceAll(/<folder>[^\s:;,"']*/g, '<path>').replaceAll(PATH, '<path>');
  // Every machine has a root.
  for (const name of [userName === 'root' ? '' : userName, hostName, hostName.split('.')[0] ?? '']) {
    const literal = name.replaceAll(/[^\w]/g, '\\$&');
    if (name !== '') told = told.replaceAll(new RegExp(`(?<![\\w-])${literal}(?![\\w-])`, 'g'), '<name>');
  }
  return told;
}
