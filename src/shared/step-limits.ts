/** The most rows of one step: a dimension of a launch's grid. Executors grant no more, gateways believe no more. */
export const MOST_STEP_TOKENS = 65_535;
