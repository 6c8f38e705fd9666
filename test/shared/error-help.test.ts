import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { statusOf } from '../../src/gateway/api/http/errors.js';
import { ERROR_HELP } from '../../src/shared/error-help.js';
import { ERRORS, type ErrorReason, RocmForgeError } from '../../src/shared/errors.js';
import { packageRoot } from '../../src/shared/package.js';

const REASONS = Object.keys(ERRORS) as ErrorReason[];

describe('every error reason', () => {
  it('has an entry, and no entry is left of a reason that is gone', () => {
    expect(Object.keys(ERROR_HELP).sort()).toEqual([...REASONS].sort());
  });

  it.each(REASONS)('%s has a meaning and a remedy of one sentence each', (reason) => {
    const { meaning, remedy } = ERROR_HELP[reason];
    for (const sentence of [meaning, remedy]) {
      expect(sentence).toMatch(/^[`A-Z].{15,}[^.]\.$/);
      expect(sentence.split(/\s+/).length).toBeLessThanOrEqual(40);
      // It stands in a cell of a table.
      expect(sentence).not.toMatch(/[|\n]/);
    }
    expect(remedy).not.toBe(meaning);
  });

  it('stands in docs/api.md with its code, HTTP status, meaning and remedy', () => {
    const page = readFileSync(path.join(packageRoot, 'docs', 'api.md'), 'utf8').split('\n');
    for (const reason of REASONS) {
      const { code, retryable } = ERRORS[reason];
      const { meaning, remedy } = ERROR_HELP[reason];
      const status = statusOf(new RocmForgeError(reason, ''));
      expect(page).toContain(
        `| ${reason} | ${code} | ${status} | ${retryable ? 'yes' : 'no'} | ${meaning} | ${remedy} |`,
      );
    }
  });
});
