export { rmsNorm as rmsNormConvert } from './rms_norm.js';
