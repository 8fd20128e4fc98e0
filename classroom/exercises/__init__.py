"""The exercises of the lessons, one module a lesson: `lesson00`, `lesson03`, and so on.

A module holds functions decorated with `classroom.Exercise`; that is all it
takes for `check` and `hint` to find them by name.
"""
