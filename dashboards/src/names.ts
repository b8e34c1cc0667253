// States and outcomes in the order of C++'s tables (tests/house/page_names.py compares them).
export const kJobStates = ['queued', 'running', 'stopped', 'done', 'failed', 'cancelled'];
export const kTrialStates = ['pending', 'leased', 'done', 'failed', 'quarantined', 'cancelled'];
export const kOutcomes = ['ok', 'build_failed', 'timeout', 'crashed', 'wrong_result', 'worker_lost', 'invalid_trace'];

/** Whether nothing more happens to what is in this state, one of `states`. */
export const isLast = (states: string[], state: string) => states.indexOf(state) >= states.indexOf('done');
