export { sumRanks as sumRanksSummed } from './sum_ranks.js';
