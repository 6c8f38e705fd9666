export { rmsNorm as rmsNormQuantize } from './rms_norm.js';
