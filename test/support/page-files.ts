import { execFileSync } from 'node:child_process';

/** Builds the page from its sources: the HTTP server reads what is in `dist/`, which may be older. */
export function buildPage(): void {
  execFileSync(process.execPath, ['tools/build-page.mjs'], { stdio: 'pipe' });
}
