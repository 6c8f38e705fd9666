export { logSoftmax, logSoftmaxTop as mergedTop, rankOf } from './log_softmax_top.js';
