export { matmul as routerScores } from './matmul.js';
