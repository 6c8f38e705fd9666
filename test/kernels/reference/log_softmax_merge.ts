export { logSoftmax, logSoftmaxTop as mergedTop } from './log_softmax_top.js';
