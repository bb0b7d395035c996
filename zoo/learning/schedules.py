"""Learning rates that Keras' own schedules do not have."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="zoo")
class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
    """A linear warm-up that precedes another schedule.

    Args:
        schedule: The other schedule.
        steps: Number of steps of the warm-up.

    Example:

    >>> falling = keras.optimizers.schedules.PolynomialDecay(1.0, 10, end_learning_rate=0.0)
    >>> [round(float(WarmUp(falling, steps=2)(step)), 2) for step in (0, 1, 2, 5)]
    [0.0, 0.45, 0.8, 0.5]
    """

    def __init__(self, schedule, steps):
        super().__init__()
        is_config = isinstance(schedule, dict)
        self.schedule = keras.saving.deserialize_keras_object(schedule) if is_config else schedule
        self.steps = steps

    def __call__(self, step):
        risen = ops.minimum(ops.cast(step, "float32") / max(self.steps, 1), 1.0)
        return risen * self.schedule(step)

    def get_config(self):
        return {
            "schedule": keras.saving.serialize_keras_object(self.schedule),
            "steps": self.steps,
        }
