"""The manifests that install Stationmaster, from deploy/kustomize.

::

    kustomization.py  puts a kustomization together, as kustomize does
    settings.py       what may be said otherwise than the manifests say it, and what becomes of them then
"""
