// Online softmax state: sum of exponentials relative to the running maximum

struct State {
    ACC greatest;
    ACC sum;
};

// One exponential whichever is greater; of equal infinities no difference is taken.
State merge(State old, State new) {
    bool stays = old.greatest >= new.greatest;
    ACC greatest = stays ? old.greatest : new.greatest;
    ACC apart = stays ? new.greatest - greatest : old.greatest - greatest;
    ACC factor = old.greatest == new.greatest ? ACC(1) : falling_exp(apart);
    ACC sum = stays ? old.sum + new.sum * factor : old.sum * factor + new.sum;
    return State(greatest, sum);
}
