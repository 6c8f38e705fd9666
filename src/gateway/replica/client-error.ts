import path from 'node:path';
import { RocmForgeError } from '../../shared/errors.js';

/** The folders of an absolute path, up to the last name in it; not those of a URL. */
const FOLDERS = /(?<![\w.:/])\/(?:[^\s/"';,:()]+\/)+/g;

/**
 * An error of this machine as clients may read it: of files there are only the names, since where they lie is not theirs to know.
 *
 * @param modelPath whose folder may have spaces in its name
 */
export function clientError(error: RocmForgeError, modelPath: string): RocmForgeError {
  const folder = path.dirname(modelPath);
  const named = path.isAbsolute(folder) ? error.message.replaceAll(`${folder}/`, '') : error.message;
  return new RocmForgeError(error.reason, named.replace(FOLDERS, ''), error.metadata, { cause: error });
}
